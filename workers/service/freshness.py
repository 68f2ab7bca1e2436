"""The freshness job of one corpus: compares what is indexed now with what its last completed job found.

Below `freshness/CORPUS` in the data directory stand `manifest.jsonl` (of the last completed job),
`manifest.current.jsonl` (of a job that is not complete), `refresh_plan.jsonl` and `embedding_ledger.jsonl`. The current
manifest takes the place of the last one when everything that follows from the plan was done. So a job that fails or is
killed plans the same again, and nothing is left out.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from sluice.contracts.errors import Conflict, Corrupted, InvalidInput, NotFound, TimedOut
from sluice.contracts.gate import Limits
from sluice.contracts.ingest import CrawlDirected, PageCrawled, PageUnchanged, PageWithdrawn
from sluice.disk.durable import lock_file
from sluice.index.folder import CorpusLayout
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.publish import read_current_name
from sluice.index.local.reader import CorpusHash, IndexReader
from sluice.ingest import freshness
from sluice.ledger.ledger import Ledger
from sluice.workers.context import Context
from sluice.workers.service.service import Service
from sluice.workers.settings import Settings

PLAN_VARIABLE = "SLUICE_REFRESH_PLAN"
"""Variable of the command's environment: the path of the plan, which is also its last argument."""
_TERM_SECONDS = 5.0
"""Pause between SIGTERM and SIGKILL."""
_LOOKED_UP_AT_ONCE = 500
"""Documents whose last sighting one ledger transaction looks up."""


class FreshnessFiles(NamedTuple):
    """The files of one corpus's freshness job."""

    folder: Path
    last: Path
    """The manifest of the last completed job."""
    current: Path
    """The manifest of a job that is not complete yet."""
    plan: Path
    """The documents to embed or to forget."""
    decisions: Path
    """The decisions of all jobs, in order."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the job. Raises `Conflict` if another job is under way."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with lock_file(self.folder / "lock", Conflict(f"another freshness job runs in {self.folder}")):
            yield


def files_of(context: Context, corpus: str, folder: Path | None = None) -> FreshnessFiles:
    """Return the files of the corpus's freshness job, which it keeps in `folder` where one is named."""
    folder = folder or context.settings.data_dir / "freshness" / corpus
    names = ("manifest.jsonl", "manifest.current.jsonl", "refresh_plan.jsonl", "embedding_ledger.jsonl")
    return FreshnessFiles(folder, *(folder / name for name in names))


def write_current_manifest(context: Context, corpus: str, path: Path) -> int:
    """Write the manifest of what the corpus serves now to `path`; return its number of documents.

    Raises `NotFound` if nothing was written to the corpus yet.
    """
    return freshness.write_manifest(_entries(context, corpus), path)


def published_hash(settings: Settings, corpus: str) -> str | None:
    """Return the hash of what the corpus's current generation holds, by its manifest; None if it cannot be read."""
    layout = CorpusLayout(settings.index_root, corpus)
    name = read_current_name(layout)
    try:
        return load_manifest(layout.generations / name).id_set_hash if name else None
    except (Corrupted, NotFound):
        return None


def require_whole(context: Context, corpus: str) -> CorpusHash | None:
    """Compute the hash of what the corpus serves; None where the engine is not ours or the corpus is empty.

    Raises `Corrupted` if the corpus serves something else than was published.
    """
    reader = context.readers.existing(corpus)
    found = reader.corpus_hash() if isinstance(reader, IndexReader) else None
    if found is not None and not found.is_whole:
        raise Corrupted(
            f"corpus {corpus} serves something else than {found.generation} was published with "
            f"({found.served[:16]} for {(found.published or '')[:16]}): run `sluice rebuild --corpus {corpus} --prove`"
        )
    return found


def plan_refresh(prior: Path | None, current: Path, files: FreshnessFiles, at: datetime) -> freshness.Counts:
    """Compare two manifests, write the plan and record each of its decisions; without `prior` everything is new.

    Raises:
        NotFound: a manifest is not there.
        InvalidInput: a manifest cannot be read; names file and line.
    """
    before = freshness.read_manifest(prior) if prior else ()
    counts = freshness.write_plan(before, freshness.read_manifest(current), files.plan)
    freshness.record_plan(freshness.read_plan(files.plan), files.decisions, at)
    return counts


def _entries(context: Context, corpus: str) -> Iterator[freshness.ManifestEntry]:
    documents = context.readers.existing(corpus).all_facts()
    while held := {facts.document_id: facts for facts in islice(documents, _LOOKED_UP_AT_ONCE)}:
        seen_at = context.page_memory.seen_at(corpus, tuple(held))
        for document_id, facts in held.items():
            fetched_at = facts.provenance.fetched_at
            yield freshness.ManifestEntry(
                url=facts.url or facts.file_path or document_id,
                checksum=facts.checksum,
                document_id=document_id,
                fetched_at=max(fetched_at, seen_at.get(document_id, fetched_at)),
                source=facts.provenance.source,
            )


@dataclass(frozen=True, slots=True)
class Rechecked:
    """Result of a recheck run: pages requested, unchanged, read and withdrawn."""

    run_id: str
    asked: int = 0
    unchanged: int = 0
    read: int = 0
    withdrawn: int = 0
    tokens: int = 0
    """Tokens embedded."""


def due_pages(context: Context, corpus: str, now: datetime) -> list[freshness.DuePage]:
    """Return the due pages of the corpus, the longest overdue first, at most as many as one run requests."""
    settings = context.settings.freshness
    watched = context.page_memory.watched(corpus, now, freshness.shortest_expected(settings))
    return freshness.choose_due(watched, settings, now, settings.max_pages)


def recheck(context: Context, corpus: str, now: datetime | None = None) -> str | None:
    """Begin a run that requests the due pages again; return its id, or None if no page is due.

    Raises:
        PolicyRefused: crawling is off.
        BudgetExhausted: the day leaves no room for a page.
        Overloaded: the crawl's queue is full.
    """
    due = due_pages(context, corpus, now or datetime.now(UTC))
    if not due:
        return None
    believing_sitemap = frozenset(one.page.url for one in due if one.by_sitemap)
    urls = [one.page.url for one in due]
    return Service(context).crawl(corpus, urls, Limits(max_depth=0), by_sitemap=believing_sitemap).run_id


def rechecked(ledger: Ledger, run_id: str) -> Rechecked:
    """Count the pages and tokens of a recheck so far."""
    kinds = (CrawlDirected, PageUnchanged, PageCrawled, PageWithdrawn)
    found = Counter({kind.kind: len(ledger.events_of_kind(run_id, kind.kind)) for kind in kinds})
    return Rechecked(
        run_id,
        asked=found[CrawlDirected.kind],
        unchanged=found[PageUnchanged.kind],
        read=found[PageCrawled.kind],
        withdrawn=found[PageWithdrawn.kind],
        tokens=ledger.run(run_id).spend.tokens,
    )


def run_with_plan(command: str, plan: Path, timeout_seconds: float, *, stdout: int | None = None) -> int:
    """Run `command` with the plan's path as last argument; return its exit code (128 + the signal that ended it).

    `stdout` receives its output; by default ours does.

    Raises:
        InvalidInput: there is no such command.
        TimedOut: it took longer, and was ended with every process that it had started.
    """
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise InvalidInput("exec", f"cannot be read: {error}", "quote it as for a shell") from error
    if not arguments:
        raise InvalidInput("exec", "is empty", "name a program")
    environment = {**os.environ, PLAN_VARIABLE: str(plan)}
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own command
            [*arguments, str(plan)], env=environment, stdout=stdout, start_new_session=True
        )
    except OSError as error:
        raise InvalidInput("exec", f"{arguments[0]!r} cannot be run: {error.strerror}", "name a program") from error
    try:
        code = process.wait(timeout_seconds)
    except subprocess.TimeoutExpired as error:
        _end(process)
        raise TimedOut(f"{arguments[0]} took longer than {timeout_seconds:g} seconds, and was ended") from error
    except BaseException:
        _end(process)
        raise
    return code if code >= 0 else 128 - code


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and every process that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TERM_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
