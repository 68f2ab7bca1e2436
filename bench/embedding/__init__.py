"""The local model against sentence-transformers: its speed for the processor's time, and what its vectors find."""
