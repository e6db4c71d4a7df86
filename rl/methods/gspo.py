"""``algorithm=gspo``: GRPO's advantages; the loss compares whole sequences (``loss=gspo``)."""

from rl.methods.grpo import annotate

__all__ = ["annotate"]
