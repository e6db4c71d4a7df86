"""Public task formats of terminal benchmarks, read as they are shipped.

``harbor`` (Terminal-Bench 2), ``terminal_bench`` (Terminal-Bench 1) and ``intercode`` parse files
into frozen records, ``rewards`` reads what their verifiers leave, ``tasks`` turns records into
``Task``s. All are pure: no engine, no network. The page of documentation is docs/task-formats.md.
"""
