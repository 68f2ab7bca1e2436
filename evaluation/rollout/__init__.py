"""Whether a model may decide more runs: sequential tests, verdicts of a stage, the report of both arms."""
