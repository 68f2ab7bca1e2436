"""Redis as a broker: Celery's application, the transport, every key, and the wake-ups."""
