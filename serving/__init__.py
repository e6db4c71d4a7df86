"""Serving: the policy behind HTTP, for agents and for people.

``types``, ``errors``, ``protocol`` and ``client`` are light (no torch); ``embedded.engine`` is the
embedded engine; ``app`` the OpenAI-compatible gateway. Importing the package starts nothing.
"""
