"""Public, cacheable rankings of models, merged from several sources. Every id in them can be sent as ``model``.

Stands beside the other apps: it may import ``completions.models`` (the catalog) and the leaves of ``gateway_project``,
and nobody imports it.

What a source says, a file after a file:

    tasks -> refresh -> sources -> fetching -> refresh (stored whole) -> meanings -> publishing -> listing -> views

- ``sources``     a file each, which reads its wire shapes only; ``boards`` says what ours are called there
- ``fetching``    the one door out: JSON, bounded in time, size and attempts
- ``refresh``     one run of one source: alone, in its turn, whole or not at all
- ``identity``    pure: which of our models a name means, by exact rules
- ``meanings``    the same as rows: the curated file, the rules, and what staff said
- ``health``      how the sources fare
- ``formula``     pure: the scores of INTERNAL; ``terms`` are what the settings make of its numbers
- ``populations`` what a source said last, as whole boards; ``catalog`` our models that can be called
- ``publishing``  what is shown, replaced as a whole: made by ``external`` and ``internal``; ``routable_aliases`` follow who
                  ranks first (an Alias is something else: what a source calls a model, see ``meanings``)
- ``listing``     what is published, in memory; ``filters`` choose from it
- ``replies``     GET /api/rankings, rendered once a moment, with ``serializers``
- ``pages``       the same for people: ``page_query`` reads the address, ``page_rows`` and ``page_facts`` are what is shown,
                  ``plots`` draw, ``explanation`` does the sums again

Beside it: ``benchmarks`` (curated), ``telemetry`` (this gateway's own speed), ``admin``.
"""
