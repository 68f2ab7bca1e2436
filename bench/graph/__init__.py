"""How well and how fast the graph is read, and what it gives to a search."""
