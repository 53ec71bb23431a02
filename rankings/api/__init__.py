"""GET /api/rankings. Imports ``rankings.publishing`` and below.

- ``views``    the endpoint: parameters in, a cached reply or 304 out; the reply's fields, for the OpenAPI description
- ``filters``  the query parameters, declared once, and how they choose from a leaderboard
- ``replies``  rendered replies and their ETags
- ``urls``
"""
