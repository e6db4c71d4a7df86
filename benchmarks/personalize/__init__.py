"""How many sessions until a policy is somebody's: ``python -m benchmarks.personalize``."""
