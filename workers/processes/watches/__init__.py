"""Chores that one process of an instance does every so often."""
