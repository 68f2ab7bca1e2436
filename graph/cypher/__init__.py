"""Answers questions in Cypher that only read, from a file of the embedded engine, in a process of its own."""
