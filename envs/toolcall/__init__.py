"""Tool calling: tools declared by JSON Schema, worlds they act on, users who want something.

``strict`` reads JSON as a model writes it, ``schema`` and ``patterns`` compile what a tool
declares, ``tools`` checks calls, ``action`` is what an agent does, ``users`` and ``grading`` are
who asks and what counts, ``env`` the environment. Tasks come from ``bank`` (single requests, by
families) and ``worlds`` (databases with a policy); ``tasks`` is the task set.
"""
