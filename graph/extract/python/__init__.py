"""Reads Python into edges: what a file defines, imports and refers to, by Python's rules of scope."""
