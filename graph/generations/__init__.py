"""Folds the rows of the ledger into generations: files for walks and queries, swapped by a pointer."""
