"""The learned gate: from a probe's measurements to the probability that the corpus answers, and from it to a plan."""
