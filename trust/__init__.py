"""Trust: who may speak for a URL, how far a source is believed, what of a text is an attack or private.

Plain functions over values. `workers` applies them when pages are ingested and when answers are made.
"""
