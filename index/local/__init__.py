"""The engine on this machine's disk: one writer, readers that follow the journal, reindexing."""
