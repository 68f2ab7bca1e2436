"""The evaluator over a million made-up runs."""
