"""What the ledger holds for learning: what became of runs, and what steers the gate."""
