"""CPU per chunk through the queues: ours, against peers with one task per item, and a bare reliable batch."""
