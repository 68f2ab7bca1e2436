"""The ledger: every run, event, attempt and dead letter, in SQL. It is the source of truth; callers use `Ledger`."""
