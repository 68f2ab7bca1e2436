"""Trust: the senders that may speak for a URL, the credibility of sources, and the attacks and private data in texts.

Plain functions over values. `workers` applies them when pages are ingested and when answers are made.
"""
