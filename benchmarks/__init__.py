"""Benchmarks: suites, and ``python -m benchmarks.perf`` for speed beside our peers."""
