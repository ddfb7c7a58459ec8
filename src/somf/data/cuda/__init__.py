"""Minibatches in the memory of a GPU."""
