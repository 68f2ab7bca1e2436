"""Reads one document: what it defines, refers to, links to and names."""
