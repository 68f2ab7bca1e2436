"""The life of an event: claimed, settled, parked, finished, replayed."""
