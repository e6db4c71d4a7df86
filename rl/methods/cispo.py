"""``algorithm=cispo``: GRPO's advantages; ``loss=cispo`` clips the weight, not the token."""

from rl.methods.grpo import annotate

__all__ = ["annotate"]
