"""Single requests: what tools there are, how people ask for them, and tasks made of both."""
