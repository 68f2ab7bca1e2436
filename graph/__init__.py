"""The graph of indexed content: read from each document alone, folded into generations, walked and queried.

`extract` reads a document, `generations` publishes the ledger's rows as files, `walk` finds neighbouring passages,
`cypher` answers queries of people and agents, `servers` feeds Neo4j or Memgraph. `docs/graph.md` explains the rest.
"""
