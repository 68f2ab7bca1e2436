"""The graph's parts as a process has them."""
