"""The graph of the indexed documents: its nodes and edges, its events, and its requests and responses."""
