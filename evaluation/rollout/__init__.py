"""Decides whether a learned model may decide more runs: sequential tests, verdicts, the report of both arms."""
