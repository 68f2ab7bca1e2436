"""Commands of what became of runs, and of what the gate learns from it."""
