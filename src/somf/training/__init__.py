"""All that is around the iterations of a fit: start, loop, records, checkpoints, search for λ."""
