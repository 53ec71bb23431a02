"""Benchmarks. They start gateways of their own; docs/bench.md tells how to run them and what they measured."""
