"""Rules of each language: definitions and references beyond `tags.scm`, modules, imports."""
