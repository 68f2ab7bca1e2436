"""The gate: computes a plan from signals, deterministically."""
