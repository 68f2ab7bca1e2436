"""Every table of the ledger, whichever module declares it."""

from __future__ import annotations

from sluice.ledger.schema import graph_tables, learning_tables, tables

DECLARED_IN = (tables, learning_tables, graph_tables)
"""Importing these fills `metadata`."""
metadata = tables.metadata
