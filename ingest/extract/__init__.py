"""Extracts readable text from bytes: HTML, PDF, feeds, Markdown."""
