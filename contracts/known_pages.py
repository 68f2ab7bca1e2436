"""Facts about pages that were read before, for conditional requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

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
