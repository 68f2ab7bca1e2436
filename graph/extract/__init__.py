"""Reads one document: its definitions, references, links and mentions."""
