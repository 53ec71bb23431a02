"""GET /v1/models, and one model, in the shape that the caller's language has.

- ``openai``       OpenAI's objects, with what OpenRouter adds: prices, limits and capabilities
- ``anthropic``    Anthropic's pages, for clients that send ``anthropic-version``
- ``views``        the HTTP views
- ``serializers``  the shape of OpenAI's, for OpenAPI
"""
