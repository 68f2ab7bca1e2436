"""Readers, one for each format that agents write. Each makes an `AgentRun` and counts events unknown to it."""
