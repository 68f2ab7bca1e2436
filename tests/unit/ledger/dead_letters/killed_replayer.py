"""A program for `test_bulk_replay`: advances every bulk replay of a ledger until it is killed."""

from __future__ import annotations

import itertools
import sys

from sluice.ledger.ledger import Ledger
from tests.support.ledger_story import NOON


def main() -> None:
    """Tick as fast as the ledger lets it, by a clock of its own."""
    with Ledger(sys.argv[1]) as ledger:
        for tick in itertools.count(1):
            ledger.replays.advance(NOON + tick / 10)


if __name__ == "__main__":
    main()
