"""The learned gate: a probability that the corpus answers, from a probe's measurements; and a plan from it."""
