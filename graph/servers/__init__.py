"""Keeps a Neo4j or Memgraph up beside the files, over Bolt."""
