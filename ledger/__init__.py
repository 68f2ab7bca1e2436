"""The ledger: every run, event, attempt and dead letter, in SQL; what it says is true. `Ledger` is the one door."""
