"""What can be asked of the graph, and how it stands."""
