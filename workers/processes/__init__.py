"""The life of one process: a worker, the reconciler, their shutdown."""
