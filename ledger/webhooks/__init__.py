"""Webhooks in the ledger: endpoints, and the deliveries that their events make."""
