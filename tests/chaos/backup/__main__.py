"""A backup is whole or none, whatever dies: `python -m tests.chaos.backup [--only NAME] [--short] [--seed N]`.

Prints a table of what was done, what was found and the limit, and ends with 1 when a check failed.
"""

from __future__ import annotations

import sys

from tests.chaos.backup.kills import kills_at_points, random_kills
from tests.chaos.family import Checks, run_checks

CHECKS: Checks = {"points": kills_at_points, "kills": random_kills}


if __name__ == "__main__":
    sys.exit(run_checks("backup", __doc__, CHECKS))
