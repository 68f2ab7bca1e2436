"""What handlers do beside one domain call: documents, probes, answers, withdrawals."""
