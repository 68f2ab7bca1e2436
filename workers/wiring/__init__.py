"""Builds the domain's objects from settings."""
