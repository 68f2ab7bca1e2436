"""Crawls one page, follows its links, and remembers its state."""
