"""Backups: one file with all that an instance cannot make again, the way back from it, and the proof of both."""

VERIFIED = "verified"
"""Beginning of the audit's note of a backup that was restored and compared."""
