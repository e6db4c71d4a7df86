"""Environments: the world an agent acts in.

This package imports nothing else of clawgym and never torch, ray, openai or transformers.
``envs.registry.make`` builds an environment by its short name; importing the package registers
nothing and starts nothing.
"""
