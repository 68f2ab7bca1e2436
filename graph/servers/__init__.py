"""Neo4j or Memgraph, kept up to date beside the files by Bolt.

`statements` has the statements for a server, `client` the connection, `feed` the rows to store, `server` all
operations on it. The driver is imported at the first connection.
"""
