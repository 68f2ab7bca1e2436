"""What became of runs, and what steers the gate by it."""
