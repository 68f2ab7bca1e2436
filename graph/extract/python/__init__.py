"""Reads Python into edges: definitions, imports and references of a file, by Python's rules of scope."""
