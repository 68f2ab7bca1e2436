"""How often a canary is stopped that should be, and one that should not be: simulated, by the real verdict."""
