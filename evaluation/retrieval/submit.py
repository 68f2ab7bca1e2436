"""Submits a corpus before it is evaluated: in batches, and waits until all documents can be found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Protocol

from pydantic import Field

from sluice.contracts.api import ENDED, RunAccepted, RunView, SubmittedDocument
from sluice.contracts.base import Value
from sluice.contracts.errors import SluiceError, TimedOut
from sluice.evaluation.retrieval.ask import retry_when_overloaded

DOCUMENTS_PER_REQUEST = 256
CHARACTERS_PER_REQUEST = 4_000_000
"""Even if each took six bytes as JSON, a request stays below the 32 MB that a server takes by default."""
POLL_SECONDS = 0.25


class Server(Protocol):
    """What is fed."""

    def add_documents(self, documents: Sequence[SubmittedDocument], corpus: str) -> RunAccepted:
        """Hand documents in."""
        ...

    def run(self, run_id: str) -> RunView:
        """Look at what became of them."""
        ...


class Submitted(Value):
    """How many documents were handed in, and how many of them (with the first reasons) could not be indexed."""

    document_count: Annotated[int, Field(ge=0)]
    missing_count: Annotated[int, Field(ge=0)] = 0
    missing: tuple[str, ...] = ()


def submit_documents(
    documents: Iterable[SubmittedDocument],
    corpus: str,
    server: Server,
    *,
    sleep: Callable[[float], object],
    clock: Callable[[], float],
    timeout_seconds: float,
    on_progress: Callable[[int, int], None] = lambda done, known: None,
) -> Submitted:
    """Hand all documents in, and wait until they can be found; `on_progress` hears how many can, of how many.

    What stood in the corpus before stays there; a document of the same id is replaced, and is cheap if unchanged.

    Raises:
        TimedOut: not all of them can be found in time; the runs go on.
        SluiceError: a run failed or was cancelled.
    """
    deadline = clock() + timeout_seconds
    runs: list[tuple[str, int]] = []
    for batch in split_into_batches(documents):
        accepted = retry_when_overloaded(lambda batch=batch: server.add_documents(batch, corpus), sleep)  # type: ignore[misc]
        runs.append((accepted.run_id, len(batch)))
        on_progress(0, sum(size for _, size in runs))
    missing: list[str] = []
    known, done = sum(size for _, size in runs), 0
    for run_id, size in runs:
        view = _ended(run_id, server, sleep, clock, deadline)
        missing += [f"{gap.subject}: {gap.reason} {gap.detail}".strip() for gap in view.missing]
        done += size
        on_progress(done, known)
    return Submitted(document_count=known, missing_count=len(missing), missing=tuple(missing[:20]))


def split_into_batches(documents: Iterable[SubmittedDocument]) -> Iterator[list[SubmittedDocument]]:
    """The documents by as many as one request carries."""
    batch: list[SubmittedDocument] = []
    characters = 0
    for document in documents:
        length = len(document.text or "")
        if batch and (len(batch) == DOCUMENTS_PER_REQUEST or characters + length > CHARACTERS_PER_REQUEST):
            yield batch
            batch, characters = [], 0
        batch.append(document)
        characters += length
    if batch:
        yield batch


def _ended(
    run_id: str, server: Server, sleep: Callable[[float], object], clock: Callable[[], float], deadline: float
) -> RunView:
    while (view := retry_when_overloaded(lambda: server.run(run_id), sleep)).status not in ENDED:
        if clock() > deadline:
            raise TimedOut(f"{run_id} goes on; look again with `sluice runs {run_id}`, then use --no-ingest")
        sleep(POLL_SECONDS)
    if view.status != "finished":
        gaps = "; ".join(f"{gap.subject}: {gap.reason}" for gap in view.missing[:3])
        raise SluiceError(f"{run_id} {view.status}: its documents cannot be found {gaps}".strip())
    return view
