"""Redis as a broker: Celery's application, the transport, every key, and what is woken by a message."""
