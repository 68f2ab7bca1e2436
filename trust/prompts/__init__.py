"""Prompts: an answer's passages as messages for a language model.

build       messages with the passages in an envelope that they cannot close
catalogue   the templates, data files with a version in their name
"""
