"""Two machines, and a third with what they share: `python -m tests.chaos.machines [--only NAME] [--short]`.

Needs root, namespaces and moto's server (`MOTO_SERVER`); says so, and ends well, where there are none.
`SLUICE_TEST_DOCUMENTS` is how many documents come in. Prints a table, and ends with 1 when a check failed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.chaos.family import Checks, run_checks
from tests.chaos.machines.story import many_machines
from tests.chaos.report import Result
from tests.support.namespaces import why_not

DOCUMENTS = "SLUICE_TEST_DOCUMENTS"


def many(folder: Path, seed: int, short: bool) -> Result:
    """The whole story, where this host can play it."""
    if problem := why_not():
        return Result("many machines", f"skipped: {problem}", "", True)
    return many_machines(folder, seed, short, int(os.environ.get(DOCUMENTS, "0")) or None)


CHECKS: Checks = {"many": many}

if __name__ == "__main__":
    sys.exit(run_checks("machines", __doc__, CHECKS))
