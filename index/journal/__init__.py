"""The journal: every upsert and delete of a document, append-only; the index is rebuilt from it."""
