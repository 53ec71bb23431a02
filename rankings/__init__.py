"""Public, cacheable rankings of models, merged from several sources. Every id in them can be sent as ``model``.

Imports ``completions.models`` (the catalog) and ``gateway_project``; no other app imports this one. The layers,
from top to bottom; each imports only what is below it:

- ``admin``, ``apps``; ``panels``: what the support desk shows of rankings
- ``management``, ``tasks``   ``refresh_rankings``, Celery tasks
- ``pages``        the rankings for people: a list, and a page of each model that explains its scores
- ``api``          GET /api/rankings, answered from memory
- ``refresh``      one run of a source: fetch, check, store, publish
- ``publishing``   makes the entries of each source and of INTERNAL, replaces them as a whole, and keeps them in memory
- ``scoring``      the formula of INTERNAL, its parameters and what goes into it
- ``identity``     which of our models a name at a source means
- ``sources``      a file for each source, with everything that the layers above need to know of it
- ``models``       the tables
- ``environment``  settings whose defaults stand beside the code that uses them

A run of a source passes through them like this:

    tasks -> refresh -> sources (read) -> refresh (store) -> identity (map names) -> publishing -> api, pages
"""
