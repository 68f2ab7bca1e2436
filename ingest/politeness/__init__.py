"""Politeness to sites: robots.txt, rate limits, and verdicts on a host's answers."""
