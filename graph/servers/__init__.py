"""Neo4j or Memgraph, kept up beside the files by Bolt.

`statements` has what is said to a server, `client` the connection, `feed` the rows that are fed, `server` all that is
done with it. The driver is imported at the first connection.
"""
