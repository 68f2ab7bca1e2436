"""How well private data and secrets are found, how often ordinary text is taken for them, and what it costs."""
