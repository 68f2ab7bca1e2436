"""Walks a generation from what was found and what is named to what is near."""
