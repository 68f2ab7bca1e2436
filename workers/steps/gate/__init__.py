"""Steps of a decision: what the corpus has on the question, and what steers the gate."""
