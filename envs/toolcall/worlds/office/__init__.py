"""Calendar and mail of one person, and an assistant who keeps to that person's rules."""
