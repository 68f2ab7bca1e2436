"""Reads the tree of a Python file: what it defines, binds, imports and uses."""
