"""What the figures in the README come from, and the demonstration."""
