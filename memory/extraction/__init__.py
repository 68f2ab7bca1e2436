"""From an agent's output to a record: what it did, what failed, what it decided and touched."""
