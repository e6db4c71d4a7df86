"""Files and tickets of a team, and an assistant of one of its members."""
