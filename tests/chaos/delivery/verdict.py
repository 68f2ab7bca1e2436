"""What counts as lost and what as doubled, and how the suite finds out.

At-least-once means that a handler may start twice, and even end twice. So neither is judged; what is recorded is.

*Lost* is, once the faults have stopped and a bounded time has passed:
- an accepted run that is not `finished`, that has a dead letter, or whose answer or outcome (of a gate run) is not
  there;
- a document of an accepted run that the current generation does not hold;
- an open row of the ledger: something that nobody will ever do.

*Doubled* is an effect that is recorded twice:
- an event whose settling was committed twice (by the witness's `settled` lines);
- two events that one cause emitted for the same thing: same run, cause, kind and subject (`_subject`);
- a run with two answers or two ends, or one whose count of settled events is not the count of its settled rows;
- a chunk id or document that stands twice in the generation;
- a document version that stands twice in the journal;
- a reservation that is still held when nothing is open: it would be paid twice.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.delivery.truth import Row, Truth, count, read_truth, settled_more_than_once
from tests.chaos.delivery.witness import facts
from tests.chaos.delivery.work import Sent, Work

OPEN = "SELECT count(*) FROM events WHERE due_at IS NOT NULL"
UNFINISHED = "SELECT count(*) FROM runs WHERE status IN ('open', 'answering')"
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was lost and what doubled, each as a sentence; and what was looked at."""

    lost: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Nothing lost, nothing doubled."""
        return not self.lost and not self.doubled

    def __str__(self) -> str:
        told = [*(f"lost: {one}" for one in self.lost[:8]), *(f"doubled: {one}" for one in self.doubled[:8])]
        return f"{len(self.lost)} lost, {len(self.doubled)} doubled" + "".join(f"\n  {one}" for one in told)


def await_quiet(ledger_url: str, timeout_seconds: float, patience_seconds: float | None = None) -> bool:
    """Wait until nothing is open, for so long at most, or until nothing has moved for `patience_seconds`."""
    deadline = time.monotonic() + timeout_seconds
    before, moved_at = -1, time.monotonic()
    while time.monotonic() < deadline:
        left = count(ledger_url, OPEN) + count(ledger_url, UNFINISHED)
        if left == 0:
            return True
        if left != before:
            before, moved_at = left, time.monotonic()
        if patience_seconds is not None and time.monotonic() - moved_at > patience_seconds:
            return False
        time.sleep(_LOOK_SECONDS)
    return False


def judge(work: Work, *, settled: Iterable[str] | None = None) -> Verdict:
    """The verdict on everything that `work` has sent, as things stand now."""
    instance = work.instance
    truth = read_truth(instance.ledger_url, instance.data_dir / "index", [sent.run_id for sent in work.sent])
    if settled is None:
        settled = settled_events(instance.witness_path)
    return judge_truth(truth, work.sent, settled)


def settled_events(witness: Path) -> list[str]:
    """The event of every witnessed settling."""
    return [fact.event for fact in facts(witness, "settled")]


def judge_truth(truth: Truth, sent: Sequence[Sent], settled: Iterable[str]) -> Verdict:
    """The verdict on what was `sent`, from what is true and what was witnessed."""
    lost = [*_lost_runs(truth, sent), *_open_rows(truth), *_lost_documents(truth, sent)]
    doubled = [
        *(f"event {event} was settled more than once" for event in settled_more_than_once(settled)),
        *_doubled_emissions(truth),
        *_miscounted_runs(truth),
        *_doubled_in_index(truth, sent),
        *_held_reservations(truth),
    ]
    figures = {
        "runs": len(sent),
        "events": sum(map(len, truth.events.values())),
        "documents": sum(len(one.documents) for one in sent),
    }
    return Verdict(tuple(lost), tuple(doubled), figures)


def _lost_runs(truth: Truth, sent: Sequence[Sent]) -> Iterator[str]:
    for one in sent:
        run = truth.runs.get(one.run_id)
        if run is None:
            yield f"run {one.run_id} was accepted and is not recorded"
        elif run["status"] != "finished":
            yield f"run {one.run_id} ({one.kind}) is {run['status']}: {_open_of(truth, one.run_id)}"
        elif run["dead_letters"]:
            letters = [f"{row['stage']}, {row['reason']}: {row['message'][:120]}" for row in truth.letters[one.run_id]]
            yield f"run {one.run_id} ({one.kind}) has {run['dead_letters']} dead letters: {'; '.join(letters)}"
        elif one.kind == "gate" and not any(row["kind"] == "AnswerReady" for row in truth.events[one.run_id]):
            yield f"run {one.run_id} has no answer"
        elif one.kind == "gate" and truth.outcomes.get(one.run_id) != run["status"]:
            yield f"run {one.run_id} is {run['status']}, and its outcome {truth.outcomes.get(one.run_id)}"


def _open_of(truth: Truth, run_id: str) -> str:
    rows = [row for row in truth.events[run_id] if row["due_at"] is not None]
    return ", ".join(f"{row['kind']} {row['id']} {row['status']} by {row['worker']}" for row in rows) or "nothing open"


def _open_rows(truth: Truth) -> Iterator[str]:
    for run_id, rows in truth.events.items():
        for row in rows:
            if row["due_at"] is not None and truth.runs[run_id]["status"] == "finished":
                yield f"{row['kind']} {row['id']} of the finished run {run_id} is {row['status']}"


def _lost_documents(truth: Truth, sent: Sequence[Sent]) -> Iterator[str]:
    for name, corpus in truth.corpora.items():
        if corpus.damage:
            yield f"corpus {name} is damaged: {corpus.damage}"
    for one in sent:
        found = truth.corpora[one.corpus].documents if one.corpus in truth.corpora else {}
        for document in one.documents:
            if document not in found:
                yield f"document {document} of run {one.run_id} cannot be searched"


def _doubled_emissions(truth: Truth) -> Iterator[str]:
    for run_id, rows in truth.events.items():
        made = Counter((row["kind"], *_subject(row)) for row in rows)
        for (kind, *subject), times in made.items():
            if times > 1:
                yield f"run {run_id} has {times} {kind} of {subject}"
        for kind in ("AnswerReady", "RunFinished", "GateDecided", "AnswerDirected"):
            if (times := sum(row["kind"] == kind for row in rows)) > 1:
                yield f"run {run_id} has {times} {kind}"


def _subject(row: Row) -> tuple[str, ...]:
    """What an event is about, beside its cause: where one cause may emit several of a kind."""
    event = json.loads(row["payload"])
    body, cause = event["body"], event["cause_id"] or row["id"]
    match row["kind"]:
        case "CrawlDirected" | "PageCrawled":
            return (body["url"],)
        case "SearchDirected":
            return (body["query"],)
        case "DocumentsSubmitted":  # a large batch is parted
            return cause, str(body.get("documents"))
        case "DocumentChunked":
            return cause, str(body.get("chunks_blob"))
        case "GapFound":
            return cause, body["gap"]["subject"], body["gap"]["reason"]
        case _:
            return (cause,)


def _miscounted_runs(truth: Truth) -> Iterator[str]:
    for run_id, run in truth.runs.items():
        for column, status in (("settled_events", "settled"), ("dead_letters", "dead")):
            rows = sum(row["status"] == status for row in truth.events[run_id])
            if run[column] != rows:
                yield f"run {run_id} counts {run[column]} {column} and has {rows}"
        failed = sum(row["due_at"] is not None and row["attempts"] + row["deaths"] > 0 for row in truth.events[run_id])
        if run["retrying"] != failed:
            yield f"run {run_id} counts {run['retrying']} open events that failed and has {failed}"


def _doubled_in_index(truth: Truth, sent: Sequence[Sent]) -> Iterator[str]:
    once = {(one.corpus, document) for one in sent for document in one.documents}
    for name, corpus in truth.corpora.items():
        for what, found in (("chunk", corpus.chunks), ("document", corpus.documents)):
            for subject, times in found.items():
                if times > 1:
                    yield f"{what} {subject} stands {times} times in the generation of {name}"
        for document, times in corpus.upserts.items():
            if times > 1 and (name, document) in once:
                yield f"document {document} stands {times} times in the journal of {name}"


def _held_reservations(truth: Truth) -> Iterator[str]:
    for run_id, run in truth.runs.items():
        held = {name: value for name, value in run.items() if name.startswith("reserved_") and value}
        if held and run["status"] not in ("open", "answering"):
            yield f"run {run_id} still holds {held}"
