"""Speed, each case beside a peer in the same run: ``python -m benchmarks.perf NAME``."""
