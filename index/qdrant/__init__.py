"""The engine that keeps vectors and terms in a Qdrant server."""
