"""Outcomes of runs, and the controls of the gate that depend on them."""
