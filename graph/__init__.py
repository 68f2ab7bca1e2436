"""The graph of what is indexed: read from each document alone, folded into generations, walked and asked.

`extract` reads a document, `generations` publishes what the ledger's rows say as files, `walk` finds what is near,
`cypher` answers questions of people and agents, `servers` feeds Neo4j or Memgraph. `docs/graph.md` tells the rest.
"""
