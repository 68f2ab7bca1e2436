"""The graph of what is indexed: its nodes and edges, its events, and what is asked and answered about it."""
