"""Google's Gemini API: https://ai.google.dev/api/generate-content

POST {base_url}/v1beta/models/{model}:generateContent; a stream is server-sent events of the same object, without an end marker.

request     the body of the request, and what cannot be asked of Gemini
messages    OpenAI's messages as instructions and contents of parts
schema      JSON Schema in Gemini's terms
json_schema  recursive schemas as the part of JSON Schema that Gemini takes
response    whole replies, the events of a stream, usage, errors
"""
