"""Reads HTML: visible nodes, main content, Markdown, metadata."""
