"""What is particular to each language: its definitions and references beyond `tags.scm`, its modules, its imports."""
