"""A file of feedback is taken line by line: each whole or not at all, and each refusal names its line."""

from __future__ import annotations

import json

import pytest

from sluice.contracts.api import FeedbackRequest
from sluice.contracts.errors import Conflict, InvalidInput, NotFound, Unavailable
from sluice.workers.service.learning.feedback_file import take_lines


class Desk:
    """Takes feedback as an instance does, which has the runs `a` and `b`."""

    def __init__(self) -> None:
        self.taken: list[FeedbackRequest] = []

    def give(self, request: FeedbackRequest) -> bool:
        if request.run_id == "down":
            raise Unavailable("the ledger does not answer")
        if request.run_id not in ("a", "b"):
            raise NotFound(f"no run {request.run_id}")
        if request.chunk_ids_used:
            raise InvalidInput("chunk_ids_used.0", "is no chunk of the run's answer")
        if request in self.taken:
            return False
        if request.run_id in {one.run_id for one in self.taken}:
            raise Conflict("other feedback was recorded")
        self.taken.append(request)
        return True


def test_each_line_counts_as_accepted_repeated_or_refused_by_its_number() -> None:
    lines = [
        json.dumps({"run_id": "a", "outcome": "success"}),
        "",
        json.dumps({"run_id": "a", "outcome": "success"}),
        json.dumps({"run_id": "a", "outcome": "failure"}),
        json.dumps({"run_id": "c", "outcome": "failure"}),
        json.dumps({"run_id": "b", "chunk_ids_used": ["x"]}),
        json.dumps({"run_id": "b", "rating": 7}),
        json.dumps({"run_id": "b", "raiting": 1}),
        json.dumps({"run_id": "b", "signal": "applause"}),
        json.dumps({"run_id": "b", "rating": 1})[:-4],
        "[1, 2]",
    ]
    desk = Desk()
    taken = take_lines(lines, desk.give)
    assert (taken.accepted, taken.repeated) == (1, 1)
    assert [refused.line for refused in taken.refused] == [4, 5, 6, 7, 8, 9, 10, 11]
    told = {refused.line: refused.error for refused in taken.refused}
    assert "no run c" in told[5]
    assert "rating" in told[7]
    assert "raiting" in told[8]
    assert "signal" in told[9]
    assert [one.run_id for one in desk.taken] == ["a"]


def test_where_the_ledger_does_not_answer_the_reading_ends_and_the_file_can_be_given_again() -> None:
    lines = [json.dumps({"run_id": name}) for name in ("a", "down", "b")]
    desk = Desk()
    with pytest.raises(Unavailable):
        take_lines(lines, desk.give)
    again = take_lines([lines[0], lines[2]], desk.give)
    assert (again.accepted, again.repeated) == (1, 1)
