"""Where the time of a run went: read from the ledger's rows, built without any other source."""
