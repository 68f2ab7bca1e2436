"""Learnings that would harm who follows them, and harmless ones that look alike; the model that tells them apart."""
