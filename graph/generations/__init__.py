"""Folds the rows of the ledger into generations: files that are walked and asked, swapped by a pointer."""
