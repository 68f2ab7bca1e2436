"""Words with the same meaning in every document: builtin names of a language, Python's types, roles of markup."""

from pathlib import Path

from sluice.text.pattern_file import PatternFile

known = PatternFile(Path(__file__).with_name("known_names.toml")).words
"""Returns the words of one entry of `known_names.toml`."""
