"""Compares two manifests of a corpus and plans what to embed and what to remove (`refresh_plan.jsonl`).

Promises: the plan holds exactly the documents that differ, each once, sorted by address; the same two manifests give
the same bytes. The job's decisions are recorded in `embedding_ledger.jsonl`: lines are only appended, never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from sluice.contracts.base import LaterText, Moment, Value, is_none
from sluice.disk.durable import replacing
from sluice.disk.json_lines import append_lines
from sluice.ingest.freshness.manifest import ManifestEntry

Status = Literal["new", "changed", "deleted"]
WHY: dict[Status, str] = {
    "new": "the prior manifest does not have it",
    "changed": "its checksum is another one",
    "deleted": "the current manifest does not have it",
}
DECISIONS: dict[Status, str] = {"new": "embed", "changed": "embed", "deleted": "forget"}
"""The action for each status of a plan."""


class PlannedRefresh(Value):
    """A document that has to be embedded, or forgotten."""

    url: str
    status: Status
    checksum: LaterText = None
    """Checksum in the current manifest."""
    prior_checksum: LaterText = None
    document_id: LaterText = None
    fetched_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    why: str


class Counts(NamedTuple):
    """Number of documents of each kind in two manifests."""

    new: int = 0
    changed: int = 0
    deleted: int = 0
    unchanged: int = 0

    @property
    def planned(self) -> int:
        """Lines of the plan."""
        return self.new + self.changed + self.deleted


def compare(prior: Iterable[ManifestEntry], current: Iterable[ManifestEntry]) -> Iterator[PlannedRefresh | None]:
    """Yield the action for each document of two sorted manifests; None for an unchanged one."""
    before, after = iter(prior), iter(current)
    old, new = next(before, None), next(after, None)
    while old is not None or new is not None:
        if old is not None and (new is None or old.key < new.key):
            yield _planned("deleted", old, None, old.checksum)
            old = next(before, None)
        elif new is not None and (old is None or new.key < old.key):
            yield _planned("new", new, new.checksum, None)
            new = next(after, None)
        elif old is not None and new is not None:
            yield None if old.checksum == new.checksum else _planned("changed", new, new.checksum, old.checksum)
            old, new = next(before, None), next(after, None)


def write_plan(prior: Iterable[ManifestEntry], current: Iterable[ManifestEntry], path: Path) -> Counts:
    """Write the plan that follows from two sorted manifests to `path`, atomically; return its counts."""
    counted: Counter[str] = Counter()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replacing(path) as file:
        for one in compare(prior, current):
            counted["unchanged" if one is None else one.status] += 1
            if one is not None:
                file.write(f"{one.model_dump_json()}\n".encode())
    return Counts(**counted)


def read_plan(path: Path) -> Iterator[PlannedRefresh]:
    """Yield the lines of a plan that `write_plan` wrote."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield PlannedRefresh.model_validate_json(line)


def record_plan(plan: Iterable[PlannedRefresh], path: Path, at: datetime) -> int:
    """Append a line for each document of a plan; return their number."""
    return append_lines(path, ({"at": at.isoformat(), **_decision(one)} for one in plan))


def record_command(path: Path, at: datetime, command: str, exit_code: int | None, plan: Path) -> None:
    """Append a line for the command that received the plan. `exit_code` None: it did not end in time."""
    ended: dict[str, object] = {"command": command, "exit_code": exit_code, "plan": str(plan)}
    append_lines(path, [{"at": at.isoformat(), "decision": "exec", **ended}])


def _planned(status: Status, one: ManifestEntry, checksum: str | None, prior_checksum: str | None) -> PlannedRefresh:
    return PlannedRefresh(
        url=one.url,
        status=status,
        checksum=checksum,
        prior_checksum=prior_checksum,
        document_id=one.document_id,
        fetched_at=one.fetched_at,
        why=WHY[status],
    )


def _decision(one: PlannedRefresh) -> dict[str, object]:
    return {"decision": DECISIONS[one.status], **one.model_dump(mode="json", exclude_none=True)}
