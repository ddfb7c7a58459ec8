"""Kinds of files, one module each, and `open`, which finds the source of a path."""
