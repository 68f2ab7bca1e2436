"""Freshness of documents: manifests, the plan that follows from two of them, and the pages that are due.

A manifest of normalised pages (`manifest.jsonl`) has a line per document, with its address and its checksum.
Manifests written here are sorted; one in another order is sorted as it is read, by SQLite in a temporary
file. So two manifests of any length are compared line by line, and memory holds a few megabytes of each. A manifest
of another program needs only `url` and `checksum`; unknown fields are ignored.

Two manifests of a corpus are compared, and what to embed and what to remove is planned (`refresh_plan.jsonl`).
Promises: the plan holds exactly the documents that differ, each once, sorted by address; the same two manifests give
the same bytes. The job's decisions are recorded in `embedding_ledger.jsonl`: lines are only appended, never changed.

A page is due once it is more likely than not that it has changed. A page that changes at random moments, on average
every `h / ln 2` days, is unchanged after `t` days with probability `0.5 ** (t / h)`; `h` is its half-life (Cho and
Garcia-Molina, Estimating Frequency of Change, 2003, also model changes as a Poisson process).
"""

from __future__ import annotations

import heapq
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError
from pydantic_core import from_json

from sluice.contracts.base import LaterText, Moment, Value, is_none
from sluice.contracts.document import document_id_for
from sluice.contracts.errors import InvalidInput, NotFound, first_problem
from sluice.contracts.ingest import WatchedPage
from sluice.disk.durable import append_lines, replacing
from sluice.ingest.settings import FreshnessSettings


class ManifestEntry(Value):
    """An entry of a manifest. `url` is the document's address; for a file its path, else its id."""

    url: Annotated[str, Field(min_length=1)]
    checksum: Annotated[str, Field(min_length=1)]
    """Checksum of the normalised content: equal checksums mean nothing to embed again."""
    document_id: LaterText = None
    """Without one the entry is about the page at `url` itself."""
    fetched_at: Annotated[Moment | None, Field(exclude_if=is_none)] = None
    """Time when it was last read, or found unchanged."""
    source: LaterText = None
    """Origin of the document: crawl, search, submission or file."""

    @property
    def key(self) -> tuple[str, str]:
        """The key by which manifests are sorted and entries matched."""
        return self.url, self.document_id or document_id_for(self.url)


_KNOWN = frozenset(ManifestEntry.model_fields)


def read_manifest(path: Path) -> Iterator[ManifestEntry]:
    """Yield the entries of a manifest, sorted by their keys.

    Raises NotFound if there is no such file, and InvalidInput, naming file and line, if a line is not an entry or two
    lines are about one document.
    """
    last_key, last_number = None, 0
    for number, entry in _sorted(_lines(path)):
        if last_key == entry.key:
            problem = f"{entry.url!r} stands in line {last_number} already"
            raise InvalidInput(f"{path}:{number}", problem, "one line per document")
        last_key, last_number = entry.key, number
        yield entry


def write_manifest(entries: Iterable[ManifestEntry], path: Path) -> int:
    """Write the entries to `path`, sorted, atomically; return their count."""
    count = 0
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with replacing(path) as file:
        for _, entry in _sorted(enumerate(entries, 1)):
            file.write(f"{entry.model_dump_json()}\n".encode())
            count += 1
    return count


def _sorted(lines: Iterable[tuple[int, ManifestEntry]]) -> Iterator[tuple[int, ManifestEntry]]:
    """Yield entries with their line numbers, sorted by key and then by number."""
    with closing(sqlite3.connect("")) as table:  # in a temporary file of its own, once it is large
        table.execute("CREATE TABLE lines (url TEXT, document TEXT, number INTEGER, entry TEXT)")
        rows = ((*entry.key, number, entry.model_dump_json()) for number, entry in lines)
        table.executemany("INSERT INTO lines VALUES (?, ?, ?, ?)", rows)
        for number, entry in table.execute("SELECT number, entry FROM lines ORDER BY url, document, number"):
            yield number, ManifestEntry.model_validate_json(entry)


def _lines(path: Path) -> Iterator[tuple[int, ManifestEntry]]:
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise NotFound(f"there is no manifest {path}") from error
    with file:
        for number, raw in enumerate(file, 1):
            if raw.strip():
                yield number, _entry(raw, f"{path}:{number}")


def _entry(raw: bytes, where: str) -> ManifestEntry:
    try:
        told: Any = from_json(raw)
    except ValueError as error:
        raise InvalidInput(where, "is no JSON", "a JSON object per line") from error
    if not isinstance(told, dict):
        raise InvalidInput(where, f"is a JSON {type(told).__name__}", "an object with url and checksum")
    try:
        return ManifestEntry.model_validate({name: value for name, value in told.items() if name in _KNOWN})
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InvalidInput(where, f"{field}: {problem}", "an object with url and checksum") from error


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


_DAY = timedelta(days=1)

MOST_PRIORS = 4.0
"""Largest half-life of a page, as a multiple of the expected one: every page is checked now and then."""
OUTDATED_HALF_LIVES = 2.0
"""Half-lives by which a page is older than it is, once a caller has called a passage of it outdated."""
SITEMAP_HALF_LIVES = 4.0
"""Half-lives for which a page's sitemap is believed: after that the page itself is requested."""


class DuePage(NamedTuple):
    """A page that is due, and its age in half-lives."""

    page: WatchedPage
    half_lives: float
    by_sitemap: bool
    """Whether its sitemap may vouch that it has not changed."""


def half_life_days(page: WatchedPage, settings: FreshnessSettings) -> float:
    """Return how many days the page is expected to stay unchanged.

    The expected half-life is the prior, and weighs as much as one change: with a rate of changes of prior
    mean `ln 2 / prior` (a Gamma distribution of shape 1), the rate after `changes` in `watched` days has the mean
    `(1 + changes) / (prior / ln 2 + watched)`, whose half-life is `(prior + ln 2 * watched) / (1 + changes)`. A page
    that answers cite is due at the target age of their profile, at the latest.
    """
    prior = settings.half_life_days
    watched = (page.fetched_at - page.watched_since) / _DAY
    learned = min((prior + math.log(2) * watched) / (1 + page.changes), MOST_PRIORS * prior)
    aims = (settings.target_age_days[name] for name in page.cited_by if name in settings.target_age_days)
    return min((learned, *aims))


def shortest_expected(settings: FreshnessSettings) -> timedelta:
    """Return the shortest half-life expected of a page without history."""
    return timedelta(days=min(settings.half_life_days, *settings.target_age_days.values()))


def choose_due(pages: Iterable[WatchedPage], settings: FreshnessSettings, now: datetime, most: int) -> list[DuePage]:
    """Return at most `most` of the pages that are due, of each owner in turn the longest overdue."""
    of_owner: defaultdict[str | None, list[DuePage]] = defaultdict(list)
    for due in _due(pages, settings, now):
        own = of_owner[due.page.owner]
        own.append(due)
        if len(own) > 2 * most:
            own[:] = heapq.nsmallest(most, own, key=_order)
    turns = [(turn, *_order(due), due) for own in of_owner.values() for turn, due in enumerate(sorted(own, key=_order))]
    return [due for *_, due in heapq.nsmallest(most, turns, key=lambda placed: placed[:-1])]


def _order(due: DuePage) -> tuple[float, str]:
    return -due.half_lives, due.page.url


def _due(pages: Iterable[WatchedPage], settings: FreshnessSettings, now: datetime) -> Iterable[DuePage]:
    for page in pages:
        half_life = half_life_days(page, settings)
        half_lives = (now - page.fetched_at) / _DAY / half_life + OUTDATED_HALF_LIVES * page.is_called_outdated
        if half_lives >= 1:
            is_believed = (now - page.asked_at) / _DAY < SITEMAP_HALF_LIVES * half_life
            yield DuePage(page, half_lives, is_believed and not page.is_called_outdated)
