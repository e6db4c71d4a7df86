"""A benchmark run: a model, a set of tasks, k samples of each, and what may be said of it."""
