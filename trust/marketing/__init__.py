"""Checks of passages for market intelligence: their tone, disclosures, claims, share of voice and channels.

Rules are data files in `trust/marketing/rules`, each with its source. All rules are for English texts.
"""
