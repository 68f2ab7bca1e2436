"""What the ledger holds for trust: quarantine, what was forgotten, what answers cite."""
