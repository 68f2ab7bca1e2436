"""Backups: one file with all that an instance cannot make again, the way back from it, and the proof of both."""
