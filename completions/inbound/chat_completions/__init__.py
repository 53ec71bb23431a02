"""OpenAI's chat completions, and what goes with them under /v1: models, quotes and completions that have ended.

- ``views``              the HTTP views
- ``serializers``        the shapes of requests and replies, for OpenAPI
- ``completion_object``  a completion that has ended
"""
