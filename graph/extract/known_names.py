"""Words that mean the same in every document: names that a language has built in, Python's types, roles of markup."""

from pathlib import Path

from sluice.text.pattern_file import PatternFile

known = PatternFile(Path(__file__).with_name("known_names.toml")).words
"""The words of one entry of `known_names.toml`."""
