"""Code as a tool: a Python interpreter in a sandbox, and mathematics to use it for.

``interpreter`` runs cells and keeps their state, ``problems`` and ``tasks`` draw tasks, ``answers``
compares what was answered exactly, ``env`` is the environment.
"""
