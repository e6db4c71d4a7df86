"""Task sets of others as tasks of tool calling: chat datasets with tools, tau2's tasks."""
