"""Feeding, against a server that keeps a script of what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from sluice.contracts.api import RunAccepted, RunStatus, RunView, SubmittedDocument
from sluice.contracts.errors import Overloaded, SluiceError, TimedOut
from sluice.contracts.event import Gap
from sluice.evaluation.retrieval.ask import DOCUMENTS_PER_REQUEST, Submitted, split_into_batches, submit_documents


def documents(count: int, text: str = "x") -> list[SubmittedDocument]:
    return [SubmittedDocument(id=f"d{number}", text=text) for number in range(count)]


class ScriptedServer:
    """Takes what it is given, after `refusals` times no; a run ends at the third look, as `end`."""

    def __init__(self, end: RunStatus = "finished", refusals: int = 0, gaps: tuple[Gap, ...] = ()) -> None:
        self.taken: list[int] = []
        self._end = end
        self._refusals = refusals
        self._gaps = gaps
        self._looks: dict[str, int] = {}

    def add_documents(self, documents: Sequence[SubmittedDocument], corpus: str) -> RunAccepted:
        if self._refusals:
            self._refusals -= 1
            raise Overloaded("full", 3.0)
        self.taken.append(len(documents))
        return RunAccepted(run_id=f"run_{len(self.taken)}", status="open")

    def run(self, run_id: str) -> RunView:
        self._looks[run_id] = self._looks.get(run_id, 0) + 1
        status = self._end if self._looks[run_id] == 3 else "open"
        made = datetime(2026, 1, 1, tzinfo=UTC)
        return RunView(
            run_id=run_id, kind="documents", corpus="docs", status=status, created_at=made, missing=self._gaps
        )


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def fed(
    server: ScriptedServer, count: int, timeout_seconds: float = 60.0
) -> tuple[Submitted, Clock, list[tuple[int, int]]]:
    clock, progress = Clock(), []

    def heard(done: int, known: int) -> None:
        progress.append((done, known))

    found = submit_documents(
        documents(count),
        "docs",
        server,
        sleep=clock.sleep,
        clock=clock,
        timeout_seconds=timeout_seconds,
        on_progress=heard,
    )
    return found, clock, progress


def test_everything_is_handed_in_and_waited_for() -> None:
    server = ScriptedServer()
    found, _, progress = fed(server, 300)
    assert server.taken == [DOCUMENTS_PER_REQUEST, 300 - DOCUMENTS_PER_REQUEST]
    assert found == Submitted(document_count=300)
    assert progress == [(0, 256), (0, 300), (256, 300), (300, 300)]


def test_a_full_server_is_given_the_time_it_asks_for() -> None:
    server = ScriptedServer(refusals=2)
    _, clock, _ = fed(server, 1)
    assert server.taken == [1]
    assert clock.now >= 6.0


def test_documents_that_could_not_be_indexed_are_counted_with_their_reason() -> None:
    gap = Gap(stage="chunk", subject="d0", reason="no_text", detail="")
    found, _, _ = fed(ScriptedServer(gaps=(gap,)), 2)
    assert (found.document_count, found.missing_count, found.missing) == (2, 1, ("d0: no_text",))


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_run_that_ends_badly_ends_the_evaluation(end: RunStatus) -> None:
    with pytest.raises(SluiceError, match=f"run_1 {end}"):
        fed(ScriptedServer(end=end), 1)


def test_waiting_ends_in_time() -> None:
    with pytest.raises(TimedOut, match="--no-ingest"):
        fed(ScriptedServer(), 1, timeout_seconds=0.1)


def test_a_request_is_bounded_by_documents_and_by_characters() -> None:
    assert [len(batch) for batch in split_into_batches(documents(600))] == [256, 256, 88]
    assert [len(batch) for batch in split_into_batches(documents(3, "x" * 2_500_000))] == [1, 1, 1]
    assert list(split_into_batches([])) == []
