"""Events that could not be handled: kept whole, queried, replayed one by one or in bulk."""
