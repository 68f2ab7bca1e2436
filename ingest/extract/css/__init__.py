"""Reads style sheets far enough to determine which parts of a page are invisible to a reader."""
