"""A program for `test_outcomes_killed`: runs are decided, answered and judged, one after the other, until it is killed."""

from __future__ import annotations

import sys

from sluice.contracts.event import Done
from sluice.ledger.ledger import Ledger
from tests.support.ledger_story import Clock, Story
from tests.support.outcome_story import answers, asks_and_decides, cites, says

PAGE = "https://example.org/a"


def main() -> None:
    """Go on as fast as the ledger lets it, by a clock of its own."""
    clock = Clock()
    with Ledger(sys.argv[1], clock=clock) as ledger:
        story = Story(ledger, clock, sys.argv[1])
        for left in ledger.runs(limit=3):  # what a killed one has left open would be claimed first
            ledger.cancel(left.run_id)
        while True:
            clock.passes(1)
            decision = asks_and_decides(story)
            run_id = decision[0].run_id
            answers(story, decision[-1], cites({PAGE: 60.0}, own=[PAGE], run_id=run_id))
            for signal in ("task_satisfaction", "tool_success"):
                feedback = says(story, run_id, signal=signal, outcome="success", chunk_ids_used=[f"{PAGE}-1"])
                story.handles(feedback, Done())


if __name__ == "__main__":
    main()
