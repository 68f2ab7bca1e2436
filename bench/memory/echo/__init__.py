"""Texts that repeat what a prompt block printed, and texts that do not."""
