"""The refusals of each key, for support: how often in each hour, by error and code, and the last ones one by one.

Nothing decides by it: ``keys.limits.refusal_cache``, which replays refusals for a second, is another thing.

- ``collector``  DRF's exception handler collects them in the memory of the process; a greenlet writes them every few seconds
- ``tables``     the statements that write, that tell of limits and budgets which refused, and that delete what is old
- ``summaries``  reads them for pages, in words
"""
