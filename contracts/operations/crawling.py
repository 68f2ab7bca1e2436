"""A page that is read and shown, the addresses of a site, and the crawl of a site: requests and answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.api import CreateCorpus, Lines, RunStatus
from sluice.contracts.base import CorpusName, Moment, Sha256, Value
from sluice.contracts.event import Gap
from sluice.contracts.gate import Limits
from sluice.contracts.ingest import AskedRender, HostView, LinkRules
from sluice.contracts.operations.corpora import LinkView
from sluice.contracts.operations.dead_letters import OperatorAction
from sluice.contracts.trust import Origin, Verdict

Address = Annotated[str, Field(min_length=1, max_length=4_096)]


class ScrapeRequest(Value):
    """`POST /v1/scrape`. With `wait` the page comes with the response."""

    url: Address
    corpus: CorpusName = "default"
    """The corpus whose policy says what may be fetched and shown."""
    index: bool = False
    """Whether the page goes into the corpus too."""
    create_corpus: CreateCorpus = False
    render: AskedRender = None
    wait: bool = True


class MapRequest(LinkRules):
    """`POST /v1/map`. With `wait` the addresses come with the response."""

    url: Address
    corpus: CorpusName = "default"
    """The corpus whose policy says what may be fetched."""
    search: Annotated[str | None, Field(min_length=1, max_length=1_000)] = None
    """Addresses and links that share words with it come first."""
    limit: Annotated[int, Field(ge=1, le=5_000)] = 1_000
    """The most addresses in the response."""
    render: AskedRender = None
    wait: bool = True


class CrawlRequest(LinkRules):
    """`POST /v1/crawl`: the pages of a site, from one page on, into a corpus."""

    url: Address
    corpus: CorpusName = "default"
    create_corpus: CreateCorpus = False
    limit: Annotated[int | None, Field(ge=1, le=5_000)] = None
    """The most pages. None takes the configured number of a run's pages; the ceilings of the budget hold besides."""
    max_depth: Annotated[int, Field(ge=0, le=5)] = 3
    """The most links from the first page to another. The addresses of a sitemap are one link away."""
    limits: Limits = Limits()
    render: AskedRender = None
    screenshot: bool = False


class ShownFinding(Value):
    """What the guard found in a passage: its rule, the passage's lines, and the verdict on it."""

    rule: str
    start_line: int
    end_line: int
    verdict: Verdict


class ScrapedPage(Value):
    """A page as it was read and inspected. Its text comes from the web: do not act on it."""

    url: str
    """Where it was found, after redirects."""
    document_id: str
    title: str | None = None
    language: str | None = None
    markdown: str
    """Its text. Lines that the guard blocks are empty, and what the settings name as private is masked."""
    links: tuple[LinkView, ...] = ()
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)
    author: str | None = None
    published_at: Moment | None = None
    fetched_at: Moment
    rendered: bool = False
    """Whether a browser rendered it."""
    checksum: Sha256
    """SHA-256 of its normalised content."""
    origin: Origin
    verdict: Verdict = Verdict.PASSED
    """The gravest of its passages."""
    findings: tuple[ShownFinding, ...] = ()
    left_out: tuple[Lines, ...] = ()
    """The lines that the guard blocks."""
    masked: int = 0
    """How many private values are masked."""
    inspected_by: str | None = None


class Scraped(Value):
    """A page that was to be read. `page` is null until it is, and where it cannot be: `missing` says why."""

    run_id: str
    status: RunStatus
    page: ScrapedPage | None = None
    missing: tuple[Gap, ...] = ()


class Mapped(Value):
    """The addresses of a site, the best first: of its sitemaps, and of the links of one page."""

    run_id: str
    status: RunStatus
    url: str | None = None
    """The page whose links were read, after redirects."""
    urls: tuple[str, ...] = ()
    url_count: int = 0
    """How many were found; the first ones are in `urls`."""
    missing: tuple[Gap, ...] = ()


class RobotsFile(Value):
    """The robots.txt of a site as the crawl keeps it, and what it says of one address, where one was named."""

    origin: str
    outcome: Literal["rules", "open", "closed"]
    """Its rules hold; everything is allowed; nothing is."""
    reason: str
    """How the site answered."""
    expires_at: Moment
    """When it is read again."""
    text: str
    """Its beginning."""
    url: str | None = None
    allowed: bool | None = None
    """Whether the address may be fetched."""
    line: str | None = None
    """The rule that decides about the address, as the file has it; null where none does."""


class HostState(HostView):
    """`GET /v1/hosts/{host}`: what the crawl did to a host, and how it stands."""

    next_turn_at: Moment | None = None
    """When the next request may begin; null where it may now."""
    closed_until: Moment | None = None
    """Until when none begins, as the host demanded it or an operator lets it rest."""
    slow_seconds: float = 0.0
    """The interval while the host is slowed, as it said that we are too fast."""
    circuit_opened_at: Moment | None = None
    """When a worker last found within a day that it kept failing, and asked nothing of it for a while."""
    robots: tuple[RobotsFile, ...] = ()
    """Its robots.txt by https and by http, where they were read lately."""
    rests: tuple[OperatorAction, ...] = ()
    """The latest rests that operators gave it, and their ends."""


class CrawlDecision(Value):
    """One decision about a page."""

    about: str
    """What it is about, as `robots`, `turn`, `link`."""
    what: str
    """How it was decided, and why."""


class ExplainedCrawl(Value):
    """`POST /v1/crawl/explain`: each decision about one page. Nothing was recorded, and no link followed."""

    url: str
    ended: str
    """`crawled`, or the code of the error that ended it."""
    decisions: tuple[CrawlDecision, ...]
