"""Feeding a corpus: `ingest` reads files of this machine, `crawl` fetches pages. Both wait until it can be found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from sluice.cli.agent.answers import leave_unless_finished, print_run
from sluice.cli.connection import as_record
from sluice.cli.output import AsJson, Corpus, checked_corpus, console, error_console, marked, print_json
from sluice.cli.session import follow, goes_on, session
from sluice.contracts.document import Document
from sluice.contracts.errors import InvalidInput
from sluice.contracts.event import Event
from sluice.contracts.gate import Limits
from sluice.contracts.index import DocumentIndexed
from sluice.contracts.ingest import CrawlDirected, DocumentsSubmitted, PageUnchanged, Render
from sluice.otel.context import span
from sluice.workers.context import Context
from sluice.workers.service.read_files import documents_in
from sluice.workers.service.service import Service

SKIPS_NAMED = 10
"""Skipped paths that are named one by one; a source tree has thousands."""

Timeout = Annotated[float, typer.Option(help="Seconds to wait for the run's end; it goes on in any case.")]


class RenderChoice(StrEnum):
    """As `contracts.ingest.Render`."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def ingest(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files, folders, or a corpus.jsonl in BEIR form.")] = None,
    corpus: Corpus = "default",
    git: Annotated[
        str | None, typer.Option(help="A repository instead: a folder or an https:// address. Reads what changed.")
    ] = None,
    ref: Annotated[str | None, typer.Option(help="Branch, tag or commit; without it what is checked out.")] = None,
    timeout: Timeout = 3_600.0,
    as_json: AsJson = False,
) -> None:
    """Read files or a repository into the corpus, and wait until all of them can be found."""
    if git is not None:
        _ingest_repository(checked_corpus(corpus), git, ref, paths, timeout, as_json=as_json)
        return
    if not paths:
        raise typer.BadParameter("name files or folders, or a repository by --git")
    if ref is not None:
        raise typer.BadParameter("--ref needs --git")
    with session(as_json=as_json, needs_workers=True) as context, indexing_progress(quiet=as_json) as progress:
        skipped = Skipped(progress, quiet=as_json)
        keys = context.settings.trust.keys
        documents = documents_in(paths, now=datetime.now(UTC), on_skip=skipped, keys=keys)
        with span("sluice ingest", kind="client"):
            accepted = Service(context).ingest(checked_corpus(corpus), counted(documents, progress))
        finish(context, accepted.run_id, timeout, progress, skipped, as_json=as_json)


def _ingest_repository(
    corpus: str, source: str, ref: str | None, paths: list[Path] | None, timeout: float, *, as_json: bool
) -> None:
    from sluice.workers.service.repositories import open_repository, read_repository

    if paths:
        raise typer.BadParameter("name files or a repository, not both")
    with session(as_json=as_json, needs_workers=True) as context, indexing_progress(quiet=as_json) as progress:
        skipped = Skipped(progress, quiet=as_json)
        with open_repository(context, source, ref) as opened, span("sluice ingest", kind="client"):
            reading = read_repository(context, corpus, opened, now=datetime.now(UTC), on_skip=skipped)
            documents = counted(reading.documents, progress)
            first = next(documents, None)
            told = f"{reading.repository} at {reading.commit.sha[:12]} ({reading.commit.branch or 'no branch'})"
            if first is None and not reading.removed:
                progress.stop()
                told += f": {reading.unchanged} files, nothing has changed"
                _tell_up_to_date(told, reading.commit.sha, as_json=as_json)
                return
            found = chain([first] if first else [], documents)
            accepted = Service(context).ingest(corpus, found, reading.removed)
        if not as_json:
            told += f": {reading.unchanged} files unchanged, {len(reading.removed)} removed"
            progress.console.print(told, markup=False, highlight=False, soft_wrap=True)
        finish(context, accepted.run_id, timeout, progress, skipped, as_json=as_json)


def _tell_up_to_date(told: str, commit: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"status": "up_to_date", "commit": commit})
    else:
        console.print(told, markup=False, highlight=False, soft_wrap=True)


def crawl(
    urls: Annotated[list[str], typer.Argument(help="Pages to crawl.")],
    corpus: Corpus = "default",
    pages: Annotated[int | None, typer.Option(min=1, help="Pages in all; the settings' ceiling holds.")] = None,
    depth: Annotated[int | None, typer.Option(min=0, max=5, help="Links deep; the settings' ceiling holds.")] = None,
    render: Annotated[RenderChoice | None, typer.Option(help="Whether a browser shows the pages.")] = None,
    screenshot: Annotated[bool, typer.Option(help="Keep a picture of each page as a blob.")] = False,
    explained: Annotated[
        bool, typer.Option("--explain", help="Ask for one page, print each decision about it, and record nothing.")
    ] = False,
    timeout: Timeout = 600.0,
    as_json: AsJson = False,
) -> None:
    """Crawl pages into the corpus, and wait until they can be found."""
    asked: Render | None = render.value if render else None
    if explained:
        _explain(checked_corpus(corpus), urls, asked, screenshot=screenshot, as_json=as_json)
        return
    with session(as_json=as_json, needs_workers=True) as context, indexing_progress(quiet=as_json) as progress:
        limits = Limits(max_pages=pages, max_depth=depth)
        with span("sluice crawl", kind="client"):
            accepted = Service(context).crawl(checked_corpus(corpus), urls, limits, render=asked, screenshot=screenshot)
        finish(context, accepted.run_id, timeout, progress, as_json=as_json)


def _explain(corpus: str, urls: list[str], render: Render | None, *, screenshot: bool, as_json: bool) -> None:
    from sluice.cli.operate.crawl_explain import explain

    with session(as_json=as_json) as context:
        if len(urls) != 1:
            raise InvalidInput("urls", f"{len(urls)} pages", "one page with --explain")
        explain(context, corpus, urls[0], render, screenshot=screenshot, as_json=as_json)


class Skipped:
    """Tells what was not read: the first few paths by name, then how many for which reason."""

    def __init__(self, progress: Progress, *, quiet: bool) -> None:
        self._progress = progress
        self._quiet = quiet
        self._reasons: Counter[str] = Counter()

    def __call__(self, path: Path, reason: str) -> None:
        """One path that was left out, and why."""
        self._reasons[reason] += 1
        if not self._quiet and self._reasons.total() <= SKIPS_NAMED:
            self._progress.console.print(f"[dim]skipped {marked(path)}: {marked(reason)}[/]", highlight=False)

    def summary(self) -> str:
        """How many files were not read, by reason; nothing where all were."""
        if not self._reasons:
            return ""
        told = ", ".join(f"{count} {reason}" for reason, count in self._reasons.most_common())
        return f"; {self._reasons.total()} files skipped ({told})"


def indexing_progress(*, quiet: bool) -> Progress:
    """The display of a command that reads and waits for the index."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=error_console, disable=quiet)


def counted(documents: Iterable[Document], progress: Progress) -> Iterator[Document]:
    """The documents, each shown as read."""
    task = progress.add_task("reading", total=None)
    for document in documents:
        yield document
        progress.advance(task)
    progress.update(task, total=progress.tasks[task].completed)


def finish(
    context: Context,
    run_id: str,
    timeout_seconds: float,
    progress: Progress,
    skipped: Skipped | None = None,
    *,
    as_json: bool,
) -> None:
    """Wait until the run has ended, and tell how it went."""
    task = progress.add_task("indexing", total=None)
    expected = documents = chunks = 0
    with goes_on(run_id):
        for event in follow(context, run_id, timeout_seconds):
            expected += _expected(event)
            documents += _indexed(event)
            chunks += event.body.chunk_count if isinstance(event.body, DocumentIndexed) else 0
            progress.update(task, total=expected or None, completed=documents)
    view = as_record(context.ledger.run(run_id))
    progress.update(task, completed=expected, total=expected)
    progress.stop()
    if not as_json:
        told = f"{documents} documents, {chunks} chunks in corpus {view.corpus}"
        console.print(told + (skipped.summary() if skipped else ""), markup=False, highlight=False, soft_wrap=True)
    print_run(view, as_json=as_json)
    leave_unless_finished(view)


def _expected(event: Event) -> int:
    """Documents that the event promises."""
    if isinstance(event.body, DocumentsSubmitted):
        return event.body.document_count
    return 1 if isinstance(event.body, CrawlDirected) else 0


def _indexed(event: Event) -> int:
    """Documents that the event says are in the journal, or were there already."""
    if isinstance(event.body, PageUnchanged):
        return 1
    if isinstance(event.body, DocumentIndexed) and event.body.chunk_count > 0:  # without chunks: a removal
        return len(event.body.document_ids)
    return 0
