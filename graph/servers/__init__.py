"""Neo4j or Memgraph, kept up beside the files by Bolt: what is stored there, how it gets there, how it is searched.

`dialect` has every statement, `client` the connection, `schema` constraints and indexes, `upsert` what is fed, `search`
what is asked, `server` all of it for a thread that waits. The driver is imported at the first connection.
"""
