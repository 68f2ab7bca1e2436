"""Other embedded engines behind one protocol, each used as its documentation shows for hybrid search.

What runs in the peers' own environment (`serve` and the adapters) imports nothing of Sluice.
"""
