"""OpenAI's chat completions: the wire format of most providers, and of this gateway's own API.

POST {base_url}/chat/completions; a stream is server-sent events that end with [DONE]. Beside ``request``, ``messages`` and
``response``, which each format has: ``normal_form``, the one form of thoughts, tool calls and finish reasons, and
``responses``, the other API, a folder of its own.
"""
