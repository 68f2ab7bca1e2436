"""The steps from each version of the ledger's schema to the next; `ledger.migrate` carries them out.

Each file in `versions` is an Alembic revision whose number is the schema version that it leads to. Promises: a step
runs in the caller's transaction, on SQLite and PostgreSQL, keeps every row, and names tables and columns as they were
in its own time: `ledger.tables` moves on, a step never does. After the last one the tables are those of a new ledger.
"""
