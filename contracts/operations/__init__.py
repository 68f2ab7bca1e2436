"""What operators see and order: dead letters, quarantine, un-ingesting, hosts."""
