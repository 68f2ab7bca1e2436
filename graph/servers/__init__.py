"""Neo4j or Memgraph, kept up to date beside the files by Bolt.

`statements` has the statements for a server and the rows that they take, `client` the connection, `server` all
operations on it. The driver is imported at the first connection.
"""
