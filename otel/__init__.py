"""Telemetry: traces, logs and metrics. Imports nothing of the other packages."""
