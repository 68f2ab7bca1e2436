"""Processes and wiring: the Celery app, the ledger, the handlers, the HTTP interface, the command line."""
