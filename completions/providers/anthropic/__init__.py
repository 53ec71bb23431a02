"""Anthropic's Messages API: https://docs.anthropic.com/en/api/messages

POST {base_url}/v1/messages; a stream is server-sent events, typed, that end with message_stop. Beside ``request``, ``messages``
and ``response``, which each format has: ``fallbacks``, the nearest that a model takes instead of what it refuses, and
``untranslated``, requests of callers who speak Messages, too.
"""
