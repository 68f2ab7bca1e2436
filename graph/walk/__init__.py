"""Walks a generation from found passages and named symbols to their neighbours."""
