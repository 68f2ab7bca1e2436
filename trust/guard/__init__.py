"""Recognises text that addresses the reader's language model instead of the reader: rules first, then a small model."""
