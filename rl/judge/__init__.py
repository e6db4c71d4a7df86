"""What was said of a reply, and what should have been said: judges and hints. Light: no torch."""
