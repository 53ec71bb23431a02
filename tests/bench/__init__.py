"""Tests of the benchmarks: each runs at its smallest size."""
