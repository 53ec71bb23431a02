"""Public, cacheable rankings of models, merged from several sources. Every id in them can be sent as ``model``.

Stands beside the other apps: it may import ``completions.models`` (the catalogue) and the leaves of ``gateway_project``,
and nobody imports it.

What a source says, a file after a file:

    tasks -> refresh -> sources -> fetching -> refresh (stored whole) -> meanings -> publishing -> listing -> views

- ``sources``     a file each, which reads its wire shapes only; ``boards`` says what ours are called there
- ``fetching``    the one door out: JSON, bounded in time, size and attempts
- ``refresh``     one run of one source: alone, in its turn, whole or not at all
- ``identity``    pure: which of our models a name means, by exact rules
- ``meanings``    the same as rows: the curated file, the rules, and what staff said
- ``health``      how the sources fare
- ``formula``     pure: the scores of INTERNAL
- ``publishing``  what is shown, replaced as a whole: made by ``external`` and ``internal``; ``aliases`` follow who ranks first
- ``listing``     GET /api/rankings from memory, with ``filters`` and ``serializers``

Beside it: ``benchmarks`` (curated), ``telemetry`` (this gateway's own speed), ``pages`` (the public page), ``admin``.
"""
