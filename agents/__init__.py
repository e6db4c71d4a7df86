"""Agents: how a model plays an environment. ``episode`` holds the one episode loop."""
