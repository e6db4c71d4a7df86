"""Worlds with a database, a policy and users; ``table`` finds the world a task is played in."""
