"""Programs that run inside a sandbox, by themselves: standard library only, Python 3.9 or newer."""
