"""Recognises texts that address the reader's language model instead of a person: rules first, then a small model."""
