"""Values about the outcomes of runs, and about what steers the gate by them."""
