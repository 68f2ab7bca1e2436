"""Turns texts into vectors: models, endpoints, the cache."""
