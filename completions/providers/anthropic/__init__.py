"""Anthropic's Messages API: https://docs.anthropic.com/en/api/messages

POST {base_url}/v1/messages; a stream is server-sent events, typed, that end with message_stop.

request   the body of the request, and what cannot be asked of Anthropic
messages  OpenAI's messages as instructions and turns of blocks
fallbacks  the nearest that a model takes instead of what it refuses
untranslated  requests of callers who speak Messages, too
response  whole replies, the events of a stream, usage, errors
"""
