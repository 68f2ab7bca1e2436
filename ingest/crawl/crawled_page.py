"""The results of a crawl: a page, an unchanged page, or a page that must leave the index.

A page is withdrawn if it requests that itself, or if its site says that it is gone. Promises: a withdrawal covers only
two addresses, the requested one and the one whose response said so. What a page claims about other addresses is
ignored: the address that its scripts show, and the one that it names as canonical. A script may also
lead the browser elsewhere; then the second address counts only within the requested origin. A result that is no answer
about the page withdraws nothing: a robots.txt that forbids the visit, a status of 500 or more, a site that does not
answer, one that requires a password.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sluice.contracts.base import BlobRef
from sluice.contracts.document import document_id_for, snippet_id_for
from sluice.contracts.errors import NotFound, PolicyRefused
from sluice.contracts.ingest import CrawlDirected, PageCrawled, PageLink, PageUnchanged, WithdrawnBy
from sluice.ingest.url import origin_of

Note = Callable[[str, str], None]
"""Called with each decision about a page: its subject, and the outcome."""


def silent(about: str, what: str) -> None:
    """Ignore every decision."""


@dataclass(frozen=True, slots=True)
class CrawledPage:
    """A page with every field of a `PageCrawled` but the blobs."""

    body: bytes
    url: str
    final_url: str
    status: int
    media_type: str
    charset: str | None
    fetched_at: datetime
    elapsed_ms: float
    directed: CrawlDirected
    rendered: bool = False
    render_reason: str | None = None
    """The reason for using a browser, or (not `rendered`) the reason one would have been needed."""
    etag: str | None = None
    last_modified: str | None = None
    canonical_url: str | None = None
    """The address that the page declares for itself: recorded as a fact, while its document is that of `final_url`."""
    noarchive: bool = False
    nosnippet: bool = False
    max_snippet: int | None = None
    screenshot: bytes | None = None
    """A PNG, if the directive requests one."""
    page_links: tuple[PageLink, ...] = ()
    """All links of the page, in its order."""
    links: tuple[str, ...] = ()
    """Links to follow from here, the best first."""

    def as_event(
        self, blob: BlobRef, screenshot: BlobRef | None = None, *, unarchived_by: str | None = None
    ) -> PageCrawled:
        """Return the event of this page, its body kept as `blob`; temporarily if `unarchived_by` is given."""
        shared = (PageCrawled.model_fields.keys() & self.__slots__) - {"screenshot"}
        return PageCrawled(
            **{name: getattr(self, name) for name in shared},
            blob=blob,
            depth=self.directed.depth,
            search_query=self.directed.search_query,
            provider=self.directed.provider,
            unarchived_by=unarchived_by,
            screenshot=screenshot,
            purpose=self.directed.purpose,
        )


@dataclass(frozen=True, slots=True)
class UnchangedPage:
    """A page that has not changed since it was last read."""

    url: str
    final_url: str
    by: Literal["not_modified", "same_content", "sitemap"]
    fetched_at: datetime
    elapsed_ms: float
    directed: CrawlDirected
    links: tuple[str, ...] = ()
    """Links to follow, as in a `CrawledPage`."""

    def as_event(self) -> PageUnchanged:
        """Return the event of this page."""
        return PageUnchanged(
            url=self.url,
            final_url=self.final_url,
            depth=self.directed.depth,
            by=self.by,
            fetched_at=self.fetched_at,
            elapsed_ms=self.elapsed_ms,
        )


GONE: dict[int, WithdrawnBy] = {404: "not_found", 410: "gone"}
"""Statuses by which a site says that a page is gone (RFC 9110, 15.5.5 and 15.5.11)."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """The reason why a page may not be in the index, and the addresses that it applies to."""

    by: WithdrawnBy
    addresses: tuple[str, ...]

    @property
    def document_ids(self) -> tuple[str, ...]:
        """Ids of the documents made from the page at those addresses, and of its search snippets."""
        pages = map(document_id_for, self.addresses)
        return (*pages, *map(snippet_id_for, self.addresses))


class NoIndex(PolicyRefused):
    """Rule `noindex`: the page requests not to be indexed. `withdrawal` names its addresses."""

    def __init__(self, url: str, final_url: str, *, rendered: bool = False) -> None:
        super().__init__("noindex", f"{final_url} asks not to be indexed", "the site's owner")
        self.withdrawal = Withdrawal("noindex", _addresses(url, final_url, rendered=rendered))


class PageGone(NotFound):
    """The site answers 404 or 410. `withdrawal` names the page's addresses."""

    def __init__(self, url: str, final_url: str, status: int, *, rendered: bool = False) -> None:
        super().__init__(f"{final_url} answers {status}")
        self.withdrawal = Withdrawal(GONE[status], _addresses(url, final_url, rendered=rendered))


def withdrawal_in(error: BaseException) -> Withdrawal | None:
    """Return the withdrawal that the error carries, if it has one."""
    return error.withdrawal if isinstance(error, (NoIndex, PageGone)) else None


def _addresses(url: str, final_url: str, *, rendered: bool) -> tuple[str, ...]:
    is_theirs = not rendered or origin_of(final_url) == origin_of(url)
    return tuple(dict.fromkeys((url, final_url) if is_theirs else (url,)))
