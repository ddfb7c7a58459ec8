"""The algorithm of the paper: one iteration, and what it is made of."""
