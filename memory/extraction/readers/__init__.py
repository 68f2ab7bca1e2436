"""One reader for each format that agents write. Each gives an `AgentRun`, and counts what it does not know."""
