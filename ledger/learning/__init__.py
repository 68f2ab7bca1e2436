"""Tables for learning: outcomes of runs, and the gate's controls."""
