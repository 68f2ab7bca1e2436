"""Checks of passages for market intelligence: their tone, disclosures, claims, whose voice is heard, and where.

Rules are data files in `trust/marketing/rules`, each with its source. All of it is for English texts.
"""
