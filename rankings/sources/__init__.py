"""The sources of the rankings: what each one is, and how its data is read. Imports ``rankings.models``,
``rankings.environment`` and ``gateway_project``.

- ``registry``   finds the spec of each source by its id
- ``internal``, ``lmsys_arena``, ``huggingface``, ``artificial_analysis``, ``openrouter``   a source each: everything that
  the rest of the app has to know of it, as its ``SPEC``
- ``base``       what a spec consists of, and what reading a source returns
- ``documents``  HTTP requests for JSON, bounded in time, size and attempts; checked access to its values
"""
