"""Tables for learning: outcomes of runs, and what steers the gate."""
