"""Labelled exchanges, written by hand; ``compose`` makes the files of them."""
