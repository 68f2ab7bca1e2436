"""Commands that measure: retrieval, trust, the gate."""
