"""OpenAI's chat completions: the wire format of most providers, and of this gateway's own API.

POST {base_url}/chat/completions; a stream is server-sent events that end with [DONE].

request      the body of the request, and in what hosts differ from OpenAI (``QUIRKS``)
messages     messages without the fields that some providers refuse
response     whole replies, the events of a stream, refusals
normal_form  the one form of thoughts, tool calls and finish reasons
responses    the other API, a folder of its own
"""
