"""How well a corpus answers questions whose answers are known: cases, measures, reports, comparisons."""
