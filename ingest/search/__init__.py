"""Web search: providers behind one protocol, fail-over, quotas, merged results."""
