"""What is remembered of a page that was read before, so that it is asked for conditionally and nothing is done twice.

Promises: `recall` gives a page only while the index holds what was read of it. A page is remembered when it was
fetched, and counts from the moment that the same run's document stands in the journal; it is forgotten with its
document, and when another reading of that document took its place. What is forgotten too early costs one more
reading, and what is forgotten too late would lose a page: in doubt it is forgotten. Of a page that was withdrawn from
the index it is kept why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from sluice.contracts.ingest import WithdrawnBy


@dataclass(frozen=True, slots=True)
class PageLink:
    """One way on from a page: a canonical address, and the text that a reader sees of it (or its title)."""

    url: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class RememberedPage:
    """A page as it was read last. `url` is the address that was directed, in its canonical form."""

    url: str
    final_url: str
    document_id: str
    """Of the document that was made of it."""
    body_sha256: str
    """Of the body that was kept, in hexadecimal digits: for a rendered page that of the browser's HTML."""
    fetched_at: datetime
    """When it was read last, or seen to be as it was."""
    rendered: bool = False
    """Whether a browser showed it: then a 304 for the page itself says nothing about what its scripts load."""
    etag: str | None = None
    last_modified: str | None = None
    canonical_url: str | None = None
    links: tuple[PageLink, ...] = ()
    nosnippet: bool = False
    """Whether the index holds it as a page of which no text is shown."""


@dataclass(frozen=True, slots=True)
class WatchedPage:
    """A page that the index holds, as far as it matters to when it is asked for again."""

    url: str
    """Where it was found in the end."""
    document_id: str
    fetched_at: datetime
    """When it was read last, or seen to be as it was."""
    asked_at: datetime
    """When its site was last asked for the page itself: its sitemap may have told of it since."""
    watched_since: datetime
    """When it was read first of all."""
    changes: int = 0
    """How often its text was found to be another one since then."""
    cited_by: tuple[str, ...] = ()
    """The profiles of the gate whose answers cite it."""


@dataclass(frozen=True, slots=True)
class WithdrawnPage:
    """A page that was taken out of the index at `withdrawn_at`, and why."""

    by: WithdrawnBy
    withdrawn_at: datetime


class PageMemory(Protocol):
    """What was read of each page, by corpus and address. Every method may be called twice."""

    def recall(self, corpus: str, url: str) -> RememberedPage | None:
        """The page at `url`, where the index holds what was read of it.

        Raises:
            Unavailable: the memory does not answer.
        """
        ...

    def remember(self, corpus: str, page: RememberedPage, *, run_id: str) -> None:
        """Keep what `run_id` has read, in place of what was kept of that address. Counts once it is confirmed.

        Raises:
            Unavailable: the memory does not answer.
        """
        ...

    def confirm(self, corpus: str, checksums: Mapping[str, str], *, run_id: str) -> None:
        """The index now holds documents, by id, with these checksums, as `run_id` has read them and as nobody else did.

        Raises:
            Unavailable: the memory does not answer.
        """
        ...

    def seen_again(self, corpus: str, url: str, at: datetime, *, asked: bool = True) -> None:
        """The page is as it was at that moment: its site was asked for it, or else its sitemap says so.

        Raises:
            Unavailable: the memory does not answer.
        """
        ...

    def seen_at(self, corpus: str, document_ids: Sequence[str]) -> Mapping[str, datetime]:
        """When the pages of these documents were read last or seen to be as they were; without those not remembered.

        Raises:
            Unavailable: the memory does not answer.
        """
        ...

    def watched(self, corpus: str, now: datetime, shortest: timedelta) -> Iterator[WatchedPage]:
        """The pages that the index holds and that may be due at `now`, the longest unseen first.

        Those were not seen for as long as the shortest half-life that is expected of any page, or for a part of it:
        half where they changed once, a third where they changed twice.

        Raises:
            Unavailable: the memory does not answer.
        """
        ...

    def withdraw(self, corpus: str, document_ids: Sequence[str], *, by: WithdrawnBy, at: datetime) -> None:
        """Keep of the pages that these documents were made of, and that were not seen since `at`, why they went.

        They count as not known from then on, until they are read anew.

        Raises:
            Unavailable: the memory does not answer.
        """
        ...

    def withdrawn(self, corpus: str, url: str) -> WithdrawnPage | None:
        """Why the page at `url` is not in the index any more, where it was withdrawn and not read since.

        Raises:
            Unavailable: the memory does not answer.
        """
        ...

    def forget(self, corpus: str, document_ids: Sequence[str]) -> None:
        """Forget every page that these documents were made of.

        Raises:
            Unavailable: the memory does not answer.
        """
        ...
