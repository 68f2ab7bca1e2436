"""Recall by a question, and the block for the next iteration's prompt."""
