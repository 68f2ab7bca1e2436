"""Fills a corpus: `ingest` reads files of this machine, `crawl` fetches pages. Both wait until all can be found.

`crawl` speaks to the instance over HTTP. `ingest` opens its data directory, as files read on this machine count as the
instance's own: a file keeps its id and its commit. Thousands of files are several runs: what broke off goes on from
there when the command comes again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sluice.cli.agent.answers import print_run
from sluice.cli.command import Render, Shown, on_disk, over_http
from sluice.cli.connection import Record, as_record, follow, given, goes_on, wrong
from sluice.cli.output import checked_corpus, error_console, marked, say, warn
from sluice_client import SluiceClient

if TYPE_CHECKING:
    from rich.progress import Progress

    from sluice.contracts.document import Document
    from sluice.workers.context import Context

TELL_SECONDS = 5.0
"""Seconds between two lines of progress where the output is no terminal."""
MOST_DOCUMENTS, MOST_CHARACTERS = 2_000, 16_000_000
"""Documents that are submitted as one run."""
UNCHANGED = "unchanged"
SKIPS_NAMED = 10
"""Most skipped paths named one by one; a source tree has thousands."""


@on_disk
def ingest(
    context: Context,
    paths: list[Path] | None = None,
    corpus: str = "default",
    git: str | None = None,
    ref: str | None = None,
    again: bool = False,
    timeout: float = 3_600.0,
    as_json: bool = False,
) -> Shown:
    """Read files or a repository into the corpus, and wait until all of them can be found."""
    if git is None and not paths:
        raise typer.BadParameter("name files or folders, or a repository by --git")
    if git is not None and paths:
        raise typer.BadParameter("name files or a repository, not both")
    if git is None and ref is not None:
        raise typer.BadParameter("--ref needs --git")
    if git is not None and again:
        raise typer.BadParameter("--again is for files: of a repository what changed is read")
    from sluice.cli.session import begin_work

    begin_work(context)
    with indexing_progress(quiet=as_json) as progress:
        skipped, corpus = Skipped(progress, quiet=as_json), checked_corpus(corpus)
        if git is not None:
            return _ingest_repository(context, corpus, git, ref, timeout, progress, skipped)
        from sluice.workers.service.contents import files_held, nothing_held
        from sluice.workers.service.read_files import documents_in

        keys, known = context.settings.trust.keys, nothing_held if again else files_held(context.readers, corpus)
        found = documents_in(paths or (), now=datetime.now(UTC), on_skip=skipped, keys=keys, known=known)
        documents = counted(found, progress)
        first = next(documents, None)
        if first is None and skipped.unchanged:
            told = f"{skipped.unchanged} files are in corpus {corpus} already, nothing has changed"
            return Shown({"status": "up_to_date", "corpus": corpus, "unchanged": skipped.unchanged}, told)
        runs = submit(context, corpus, chain([first], documents) if first is not None else (), timeout)
        return wait_here(context, runs, timeout, progress, skipped)


def _ingest_repository(
    context: Context, corpus: str, source: str, ref: str | None, timeout: float, progress: Progress, skipped: Skipped
) -> Shown:
    """Ingest the changed files of a repository; where none changed, no run begins."""
    from sluice.workers.service.sources import open_repository, read_repository

    with open_repository(context, source, ref) as opened:
        reading = read_repository(context, corpus, opened, now=datetime.now(UTC), on_skip=skipped)
        documents = counted(reading.documents, progress)
        first = next(documents, None)
        sha = reading.commit.sha
        told = f"{reading.repository} at {sha[:12]} ({reading.commit.branch or 'no branch'}): {reading.unchanged} files"
        if first is None and not reading.removed:
            return Shown({"status": "up_to_date", "commit": sha}, f"{told}, nothing has changed")
        found = chain([first], documents) if first is not None else ()
        runs = submit(context, corpus, found, timeout, reading.removed)
    if not progress.disable:
        warn(f"{told} unchanged, {len(reading.removed)} removed")
    return wait_here(context, runs, timeout, progress, skipped)


@over_http
def crawl(
    client: SluiceClient,
    urls: list[str],
    corpus: str = "default",
    pages: int | None = None,
    depth: int | None = None,
    render: Render | None = None,
    screenshot: bool = False,
    explained: bool = False,
    timeout: float = 600.0,
    as_json: bool = False,
) -> Shown:
    """Crawl pages into the corpus, and wait until they can be found."""
    if explained:
        from sluice.cli.agent.crawl_explain import explain
        from sluice.cli.session import session

        if len(urls) != 1:
            raise wrong("urls", f"{len(urls)} pages", "one page with --explain")
        with session(as_json=as_json) as context:
            return explain(context, checked_corpus(corpus), urls[0], render, screenshot=screenshot)
    limits, how = given(max_pages=pages, max_depth=depth), given(render=render, screenshot=screenshot or None)
    documents = [{"url": url} for url in urls]
    run_id = client.add_documents(documents, corpus, create_corpus=True, limits=limits, **how).run_id
    with indexing_progress(quiet=as_json) as progress:
        return finish(follow(client, run_id, timeout), lambda: client.run(run_id), progress)


class Skipped:
    """Reports skipped files: the first few paths by name, then the count for each reason."""

    def __init__(self, progress: Progress, *, quiet: bool) -> None:
        self._progress = progress
        self._quiet = quiet
        self._reasons: Counter[str] = Counter()
        self.unchanged = 0

    def __call__(self, path: Path, reason: str) -> None:
        """Report one path that was skipped, and the reason; of those that are unchanged only the number."""
        if reason == UNCHANGED:
            self.unchanged += 1
            return
        self._reasons[reason] += 1
        if not self._quiet and self._reasons.total() <= SKIPS_NAMED:
            self._progress.console.print(f"[dim]skipped {marked(path)}: {marked(reason)}[/]", highlight=False)

    def summary(self) -> str:
        """Return the numbers of unchanged and of skipped files, these by reason; empty where there are none."""
        unchanged = f"; {self.unchanged} files unchanged" if self.unchanged else ""
        if not self._reasons:
            return unchanged
        told = ", ".join(f"{count} {reason}" for reason, count in self._reasons.most_common())
        return f"{unchanged}; {self._reasons.total()} files skipped ({told})"


def indexing_progress(*, quiet: bool) -> Progress:
    """Make the display of a command that waits for the index: bars; where there is no terminal, a line now and then."""
    from rich import progress

    class Lines(progress.Progress):
        """Writes `reading: 120` or `indexing: 3 of 120` as one line."""

        told_at = time.monotonic()

        def stop(self) -> None:
            """End without the empty line that follows bars."""
            self.live.stop()

        def update(self, task_id: progress.TaskID, **fields: Any) -> None:
            """See `Progress`."""
            super().update(task_id, **fields)
            if self.disable or time.monotonic() - self.told_at < TELL_SECONDS:
                return
            self.told_at, task = time.monotonic(), self._tasks[task_id]
            total = f" of {task.total:g}" if task.total else ""
            self.console.print(f"{task.description}: {task.completed:g}{total}", highlight=False)

    if not quiet and not error_console.is_terminal:
        return Lines(console=error_console, auto_refresh=False, transient=True)
    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
    )
    return progress.Progress(*columns, console=error_console, disable=quiet)


def counted(documents: Iterable[Document], progress: Progress) -> Iterator[Document]:
    """Yield the documents, counting each as read."""
    task = progress.add_task("reading", total=None)
    for document in documents:
        yield document
        progress.update(task, advance=1)
    progress.update(task, total=progress.tasks[task].completed)


def submit(
    context: Context, corpus: str, documents: Iterable[Document], timeout_seconds: float, removed: Sequence[str] = ()
) -> list[str]:
    """Record the documents as runs of the opened instance, a portion each, and return their ids.

    What breaks off keeps the portions before. A portion for which the queues have no room waits for it.
    """
    from sluice.text.batches import in_batches

    runs, deadline = list[str](), time.monotonic() + timeout_seconds
    for portion in in_batches(documents, lambda one: one.size, most_items=MOST_DOCUMENTS, most_size=MOST_CHARACTERS):
        with goes_on(runs[-1]) if runs else nullcontext():
            runs.append(_submit_one(context, corpus, portion, () if runs else removed, deadline if runs else 0.0))
    return runs or [_submit_one(context, corpus, (), removed, 0.0)]


def _submit_one(
    context: Context, corpus: str, documents: Sequence[Document], removed: Sequence[str], deadline: float
) -> str:
    from sluice.contracts.errors import Overloaded
    from sluice.otel.context import span
    from sluice.workers.service.service import Service

    while True:
        try:
            with span("sluice ingest", kind="client"):
                return Service(context).ingest(corpus, documents, removed).run_id
        except Overloaded as error:
            if time.monotonic() + error.retry_after_seconds > deadline:
                raise
            time.sleep(error.retry_after_seconds)


def wait_here(
    context: Context, runs: Sequence[str], timeout_seconds: float, progress: Progress, skipped: Skipped | None = None
) -> Shown:
    """Wait as `finish` does, for runs of the opened instance."""
    from sluice.cli.session import follow

    deadline = time.monotonic() + timeout_seconds

    def view_of_all() -> Any:
        views = [context.ledger.run(run_id) for run_id in runs]
        one = next((view for view in views if view.status != "finished"), views[-1])
        missing = tuple(gap for view in views for gap in view.missing)
        return Record(as_record(one.model_copy(update={"missing": missing})), run_ids=list(runs))

    with goes_on(runs[-1]):
        events = (event for run_id in runs for event in follow(context, run_id, deadline - time.monotonic()))
        return finish(events, view_of_all, progress, skipped)


def finish(
    events: Iterable[Any], view_of_run: Callable[[], Any], progress: Progress, skipped: Skipped | None = None
) -> Shown:
    """Wait for the last of a run's events, and show the outcome."""
    task = progress.add_task("indexing", total=None)
    expected = documents = chunks = 0
    for event in events:
        match event.kind:
            case "DocumentsSubmitted":
                expected += event.body.document_count
            case "CrawlDirected":
                expected += 1
            case "PageUnchanged":  # it is in the journal already
                documents += 1
            case "DocumentIndexed" if event.body.chunk_count:  # without chunks: a removal
                documents += len(event.body.document_ids)
                chunks += event.body.chunk_count
        progress.update(task, total=expected or None, completed=documents)
    view = view_of_run()
    progress.update(task, completed=expected, total=expected)

    def draw() -> None:
        left_out = skipped.summary() if skipped else ""
        say(f"{documents} documents, {chunks} chunks in corpus {view.corpus}{left_out}")
        print_run(view)

    return Shown(view, draw, exit_code=int(view.status != "finished"))
