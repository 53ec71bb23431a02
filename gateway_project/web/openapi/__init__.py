"""The OpenAPI description, and the page made from it.

- ``descriptions``   what views say of themselves
- ``fields``         serializer fields that only describe
- ``specification``  GET /api/openapi.json, made of both
- ``reference``      GET /docs/reference, the page
"""
