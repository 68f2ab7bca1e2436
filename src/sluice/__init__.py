"""Sluice: search-gated retrieval for AI agents.

The folders of this package stand at the top of the repository; here are links to them.
"""
