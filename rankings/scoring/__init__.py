"""The scores of INTERNAL. Imports ``rankings.identity`` and what is below it.

- ``formula``      computes scores from figures; pure
- ``parameters``   the numbers of the formula that are a matter of judgement: published, and in force by the settings
- ``populations``  the last snapshot of a source, by board
- ``telemetry``    the speed of each model, measured on this gateway's streams
- ``benchmarks``   the curated figures of ``benchmarks.toml``
"""
