"""How sites are asked: robots.txt, rate limits, what a host's answers say about it."""
