"""Politeness to sites: robots.txt, rate limits, and what a host's answers say about it."""
