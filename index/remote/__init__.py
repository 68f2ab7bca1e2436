"""Published generations in an object store."""
