"""OpenAI's chat completions, and what goes with them under /v1: quotes, usage and completions that have ended.

- ``views``              the HTTP views
- ``serializers``        the shapes of requests and replies, for OpenAPI
- ``clients``            OpenRouter's clients, whose streams end with their usage
- ``completion_object``  a completion that has ended
"""
