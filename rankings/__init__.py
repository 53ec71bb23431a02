"""Public, cacheable rankings of models, merged from several sources. Every id in them can be sent as ``model``.

Stands beside the other apps: it may import ``completions.models`` (the catalogue) and the leaves of ``gateway_project``,
and nobody imports it. It holds nothing yet.
"""
