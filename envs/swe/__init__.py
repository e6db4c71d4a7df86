"""Software-engineering tasks: a bug in a source tree, hidden tests, a shell to mend it with.

``env`` is the environment, ``tasks`` loads its tasks. Two sources: ``generated`` puts one edit into
a small function of ``functions/``; ``releases`` sets an older release of a real package against the
newer release's tests (``python -m envs.swe build``). ``call_grading`` and ``pytest_grading`` judge.
"""
