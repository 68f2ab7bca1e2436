"""The graph says what the index says, whatever dies: `python -m tests.chaos.graph [--only NAME] [--short] [--seed N]`.

Prints a table of what was done, what was found and the limit, and ends with 1 when a check failed.
"""

from __future__ import annotations

import sys

from tests.chaos.family import Checks, run_checks
from tests.chaos.graph.kills import random_kills
from tests.chaos.graph.points import kills_at_points

CHECKS: Checks = {"points": kills_at_points, "kills": random_kills}


if __name__ == "__main__":
    sys.exit(run_checks("graph", __doc__, CHECKS))
