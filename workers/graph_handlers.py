"""Handlers of the graph: what was indexed is read into it, and a generation of it is published."""
