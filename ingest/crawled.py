"""What a crawl yields, and what it wants of a browser."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from contracts.base import BlobRef
from contracts.ingest import CrawlDirected, PageCrawled


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


class Renderer(Protocol):
    """A browser; see `ingest.browser.Browser`."""

    def render(
        self,
        url: str,
        *,
        proxy_url: str,
        user_agent: str,
        timeout_seconds: float,
        max_bytes: int,
        within_seconds: float,
    ) -> RenderedPage:
        """The page at `url` after its scripts ran; `within_seconds` covers what it waits for as well."""
        ...


@dataclass(frozen=True, slots=True)
class CrawledPage:
    """A page and everything a `PageCrawled` says about it but the blob."""

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
    links: tuple[str, ...] = ()

    def as_event(self, blob: BlobRef) -> PageCrawled:
        """The event of this page, its body kept as `blob`."""
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
        )
