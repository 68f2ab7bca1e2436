"""The results of a crawl: a page, an unchanged page, or a page that must leave the index.

A page is withdrawn where it asks for that itself, or where its site says that it is gone. Promises: only two addresses
are spoken of, the one that was asked for and the one whose response said so. What a page says of other addresses counts
for none of them: not the address that its scripts show, and not the one that it names as canonical. A script may also
lead the browser elsewhere; then the second address counts only within the origin that was asked. What is no answer
about the page withdraws nothing: a robots.txt that forbids to look, a status of 500 or more, a site that does not
answer, one that asks for a password.
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
"""Told of each decision about a page: what it is about, and how it went."""


def silent(about: str, what: str) -> None:
    """Ignores every decision."""


@dataclass(frozen=True, slots=True)
class CrawledPage:
    """A page and everything a `PageCrawled` says about it but the blobs."""

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
    """Why a browser was used, or (not `rendered`) why one would have been needed."""
    etag: str | None = None
    last_modified: str | None = None
    canonical_url: str | None = None
    """What the page declares to be its address: recorded as a fact, while its document is that of `final_url`."""
    noarchive: bool = False
    nosnippet: bool = False
    max_snippet: int | None = None
    screenshot: bytes | None = None
    """A PNG, where one was asked for."""
    page_links: tuple[PageLink, ...] = ()
    """All that the page has, in its order."""
    links: tuple[str, ...] = ()
    """Where to go on from here, the best first."""

    def as_event(
        self, blob: BlobRef, screenshot: BlobRef | None = None, *, unarchived_by: str | None = None
    ) -> PageCrawled:
        """The event of this page, its body kept as `blob`; where `unarchived_by` is given, only for a while."""
        shared = (PageCrawled.model_fields.keys() & self.__slots__) - {"screenshot"}
        return PageCrawled(
            **{name: getattr(self, name) for name in shared},
            blob=blob,
            depth=self.directed.depth,
            search_query=self.directed.search_query,
            provider=self.directed.provider,
            unarchived_by=unarchived_by,
            screenshot=screenshot,
        )


@dataclass(frozen=True, slots=True)
class UnchangedPage:
    """A page that is as it was when it was read last."""

    url: str
    final_url: str
    by: Literal["not_modified", "same_content", "sitemap"]
    fetched_at: datetime
    elapsed_ms: float
    directed: CrawlDirected
    links: tuple[str, ...] = ()
    """As those of a `CrawledPage`."""

    def as_event(self) -> PageUnchanged:
        """The event of this page."""
        return PageUnchanged(
            url=self.url,
            final_url=self.final_url,
            depth=self.directed.depth,
            by=self.by,
            fetched_at=self.fetched_at,
            elapsed_ms=self.elapsed_ms,
        )


GONE: dict[int, WithdrawnBy] = {404: "not_found", 410: "gone"}
"""The statuses that say so of a page (RFC 9110, 15.5.5 and 15.5.11)."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Why a page may not be in the index, and the addresses that this was said of."""

    by: WithdrawnBy
    addresses: tuple[str, ...]

    @property
    def document_ids(self) -> tuple[str, ...]:
        """Of the documents that were made of the page at those addresses, and of what searches showed of it."""
        pages = map(document_id_for, self.addresses)
        return (*pages, *map(snippet_id_for, self.addresses))


class NoIndex(PolicyRefused):
    """Rule `noindex`: the page asks not to be indexed. `withdrawal` says which."""

    def __init__(self, url: str, final_url: str, *, rendered: bool = False) -> None:
        super().__init__("noindex", f"{final_url} asks not to be indexed", "the site's owner")
        self.withdrawal = Withdrawal("noindex", _addresses(url, final_url, rendered=rendered))


class PageGone(NotFound):
    """The site answers 404 or 410. `withdrawal` says for which page."""

    def __init__(self, url: str, final_url: str, status: int, *, rendered: bool = False) -> None:
        super().__init__(f"{final_url} answers {status}")
        self.withdrawal = Withdrawal(GONE[status], _addresses(url, final_url, rendered=rendered))


def withdrawal_in(error: BaseException) -> Withdrawal | None:
    """What the error says of a page that may no longer be in the index, where it is such an error."""
    return error.withdrawal if isinstance(error, (NoIndex, PageGone)) else None


def _addresses(url: str, final_url: str, *, rendered: bool) -> tuple[str, ...]:
    is_theirs = not rendered or origin_of(final_url) == origin_of(url)
    return tuple(dict.fromkeys((url, final_url) if is_theirs else (url,)))
