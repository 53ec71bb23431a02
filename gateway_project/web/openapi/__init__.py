"""The OpenAPI description, and the page made from it.

- ``fields``         serializer fields that only describe
- ``specification``  GET /api/openapi.json, made of them and of what views say of themselves
- ``reference``      GET /docs/reference, the page
- ``changes``        GET /docs/changes, what changed in it, and the feed
"""
