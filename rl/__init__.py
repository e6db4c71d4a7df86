"""Learning: from episodes to weights. ``python -m rl.train`` is the way in."""
