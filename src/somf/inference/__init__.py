"""What can be computed with a fixed dictionary: codes, objective, stationarity gap, usage."""
