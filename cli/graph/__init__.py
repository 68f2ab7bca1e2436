"""`sluice graph`: the graph of what is indexed."""
