"""The graph's rows: what each document states, and the sums that tell whether two graphs are equal."""
