"""Self-defence in a world that changes: a simulated quarter, and how often quiet quarters trip."""
