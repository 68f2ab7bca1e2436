"""Work of handlers beside one domain call: documents, probes, answers, withdrawals."""
