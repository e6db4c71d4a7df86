"""Task sets: load, select, list, validate.

``loading.load`` is what programs call; ``python -m envs.tasks list|validate`` what people call.
"""
