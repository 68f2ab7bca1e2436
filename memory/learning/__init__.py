"""Learnings: added, compared with those before, distilled from iterations, reviewed and pruned."""
