"""From text to passages: sections, prose, code, tokens."""
