"""The corpus of small functions, with their checks, that one-edit bugs are put into.

Every function stands alone beside its module's imports. Its checks are the asserts of
``test_<name>``: ``assert <call> == <literal>``. ``envs.swe.corpus`` reads these files as text.
"""
