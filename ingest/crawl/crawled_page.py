"""What a crawl yields, and what it wants of the parts that it works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self

from sluice.contracts.base import BlobRef
from sluice.contracts.ingest import CrawlDirected, PageCrawled, PageUnchanged
from sluice.contracts.known_pages import PageLink

if TYPE_CHECKING:
    from sluice.ingest.browser.page import RenderLimits
    from sluice.ingest.egress.crawl_account import EgressReport
    from sluice.ingest.settings import Purpose

Note = Callable[[str, str], None]
"""Told of each decision about a page: what it is about, and how it went."""


def silent(about: str, what: str) -> None:
    """Ignores every decision."""


class RenderedPage(Protocol):
    """A page as a browser shows it."""

    @property
    def html(self) -> str: ...  # noqa: D102
    @property
    def final_url(self) -> str: ...  # noqa: D102
    @property
    def status(self) -> int: ...  # noqa: D102
    @property
    def headers(self) -> dict[str, str]: ...  # noqa: D102
    @property
    def requests(self) -> int: ...  # noqa: D102
    @property
    def screenshot(self) -> bytes | None: ...  # noqa: D102


class Renderer(Protocol):
    """A browser; see `ingest.browser.browser.Browser`."""

    def render(
        self,
        url: str,
        *,
        proxy_url: str,
        user_agent: str,
        limits: RenderLimits,
        pre_request: Callable[[str], None],
        screenshot: bool,
        run_id: str,
    ) -> RenderedPage:
        """The page at `url` after its scripts ran. `pre_request` is asked before each further address."""
        ...


class EgressGrant(Protocol):
    """One crawl's own access to the egress proxy; see `ingest.egress.crawl_account.EgressAccount`."""

    @property
    def url(self) -> str: ...  # noqa: D102
    def report(self) -> EgressReport: ...  # noqa: D102
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Egress(Protocol):
    """The egress proxy; see `ingest.egress.proxy.EgressProxy`."""

    def open(self, purpose: Purpose, *, run_id: str, max_bytes: int | None) -> EgressGrant:
        """The grant of one crawl, good until it is closed."""
        ...


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
        return PageCrawled(
            url=self.url,
            final_url=self.final_url,
            status=self.status,
            blob=blob,
            media_type=self.media_type,
            charset=self.charset,
            depth=self.directed.depth,
            rendered=self.rendered,
            fetched_at=self.fetched_at,
            etag=self.etag,
            last_modified=self.last_modified,
            search_query=self.directed.search_query,
            provider=self.directed.provider,
            elapsed_ms=self.elapsed_ms,
            canonical_url=self.canonical_url,
            noarchive=self.noarchive,
            unarchived_by=unarchived_by,
            nosnippet=self.nosnippet,
            max_snippet=self.max_snippet,
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
