"""One module per search provider."""
