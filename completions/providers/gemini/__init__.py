"""Google's Gemini API: https://ai.google.dev/api/generate-content

POST {base_url}/v1beta/models/{model}:generateContent; a stream is server-sent events of the same object, without an end marker.
Beside ``request``, ``messages`` and ``response``, which each format has: ``schema``, JSON Schema in Gemini's terms, and
``json_schema``, recursive schemas as the part of JSON Schema that Gemini takes.
"""
