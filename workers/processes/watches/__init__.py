"""Chores that one process of an instance does at intervals.

When the ledger, the index or the broker does not answer, a look raises `Unavailable`, and the next one tries again.
"""
