"""Methods by name, one file each: every one turns a group's members into annotated samples.

The table is ``rl.algorithms.METHODS``; docs/adding-an-algorithm.md adds one.
"""
