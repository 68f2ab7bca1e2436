"""Web search providers behind one protocol: one module each, `ingest.providers.build` makes the configured ones."""
