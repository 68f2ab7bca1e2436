"""Commands about what the gate learns of its runs."""
