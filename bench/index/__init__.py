"""The index beside its peers, and against its size: `python -m bench.index`."""
