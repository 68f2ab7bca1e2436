"""Commands of agents: ask, ingest, graph, memory."""
