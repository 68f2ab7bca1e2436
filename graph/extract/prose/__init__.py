"""Reads prose into pieces: words, code within a line, code blocks, and links, each with its line."""
