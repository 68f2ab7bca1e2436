"""The gate: its numbers fitted on public questions, and measured on others."""
