"""Settings of search, crawl, chunk and embed. Each default carries its unit and its reason."""

from __future__ import annotations

from fnmatch import fnmatchcase
from ipaddress import IPv6Network
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, SecretStr, field_validator, model_validator

from sluice.contracts.base import FIXED, Value

Purpose = Literal["crawl", "search", "rerank", "judge", "git", "graph", "mcp", "webhook"]
"""Purposes of outward traffic: pages with all that they load and link to, search providers, a reranker, a language
model that judges, repositories, a graph server, servers of tools (MCP), receivers of webhooks."""
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
NAT64_LENGTHS = frozenset({32, 40, 48, 56, 64, 96})
"""Lengths of prefixes that may carry an IPv4 address, in bits (RFC 6052, 2.2)."""


class EgressSettings(Value):
    """The traffic that may leave this machine, and its destinations."""

    allow: tuple[str, ...] = ()
    """Explicit exceptions, `purpose=host:port`, for that purpose alone, for addresses that are not globally routable or
    ports that are not open. `search=127.0.0.1:8888` opens a SearXNG to searches, `rerank=127.0.0.1:8000` an endpoint to
    the reranker, `git=git.internal:443` a server of repositories, `graph=10.0.0.8:7687` a member of a graph server's
    cluster (the server of `graph.url` needs no entry, unless only listed targets may be reached), `mcp=127.0.0.1:9000`
    a server of tools to `sluice graph tools`, `webhook=10.0.0.9:9000` a receiver of webhooks, `crawl=wiki.internal:80`
    a site to the crawler, which follows links of pages that others wrote. `host:port` alone means `crawl`.

    Before there were purposes an entry held for all of them. An old one for `search.searxng_url` or `rerank.url` is an
    error that names the new entry; if pages too may reach that address, it takes two entries."""
    allow_services: tuple[str, ...] = ()
    """Entries as in `allow`, of services that come with the deployment. `compose.yaml` names its SearXNG here, so that
    `allow` adds to it."""
    allow_domains: tuple[str, ...] = ()
    """If not empty, only these domains (and their subdomains) may be reached."""
    deny_domains: tuple[str, ...] = ()
    """Domains (and their subdomains) that may never be reached."""
    ports: tuple[int, ...] = (80, 443)
    """The ports of the public web; any other port may be a private service."""
    policy: Literal["open", "listed", "deny"] = "open"
    """`open`: everything may be reached unless the rules refuse it. `listed`: only `allow_domains` and `allow`. `deny`:
    nothing at all, whatever else is set; it is refused before a name is looked up or a socket opened."""
    own_networks: Annotated[Literal["refuse", "allow"], FIXED] = "refuse"
    """Whether this machine's own networks may be reached where their addresses are globally routable: a public address
    of our own, the neighbours in an IPv6 network. `allow` entries are exceptions in any case."""
    nat64_prefixes: tuple[str, ...] = ()
    """The network's own prefixes by which IPv4 is reached over IPv6 (RFC 6052), for instance `2001:db8:64::/96`: the
    IPv4 address within is judged as well. The well-known ones always are."""
    max_requests_per_crawl: Annotated[int, FIXED] = 500
    """Connections and plain requests that one page may cause: heavy pages need some two hundred."""
    upstream_proxy_url: SecretStr | None = None
    """A proxy of the owner's network for all traffic, `http://user:password@proxy.corp:3128`. It receives the address
    that was checked, never a name."""

    @field_validator("allow", "allow_services")
    @classmethod
    def _entries_are_whole(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        for entry in entries:
            purpose, _, address = entry.rpartition("=")
            host, _, port = address.rpartition(":")
            known = purpose in PURPOSES or "=" not in entry
            if not known or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
                purposes = ", ".join(PURPOSES)
                raise ValueError(f"{entry!r} is not purpose=host:port, for instance search=127.0.0.1:8888 ({purposes})")
        return entries

    @field_validator("nat64_prefixes")
    @classmethod
    def _prefixes_can_hold_an_address(cls, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        for prefix in prefixes:
            try:
                length = IPv6Network(prefix).prefixlen
            except ValueError as error:
                raise ValueError(f"{prefix!r} is not an IPv6 prefix, for instance 2001:db8:64::/96") from error
            if length not in NAT64_LENGTHS:
                raise ValueError(f"{prefix!r} has none of the lengths that RFC 6052 knows: 32, 40, 48, 56, 64, 96")
        return prefixes


class SearchSettings(Value):
    """Web search. Off until `enabled`."""

    enabled: bool = False
    providers: tuple[Literal["searxng", "brave", "serpapi", "tavily", "ddgs"], ...] = ()
    """Providers in order of fail-over."""
    searxng_url: str | None = None
    brave_api_key: SecretStr | None = None
    serpapi_api_key: SecretStr | None = None
    tavily_api_key: SecretStr | None = None
    locale: Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Z]{2})?$")] = "en-US"
    """Language, and country where results should come from there: `de`, `pt-BR`."""
    top_k: Annotated[int, FIXED] = 8
    """Results of one search: as many as one page of every provider brings, and as a run's plan crawls."""
    timeout_seconds: Annotated[float, FIXED] = 10.0
    """Time limit of one call to one provider; metasearch needs a few seconds, an agent waits no longer."""
    allow_domains: tuple[str, ...] = ()
    """If not empty, results from other domains are dropped."""
    quota_per_day: Annotated[int, Field(ge=0)] = 1_000
    """Calls per provider and UTC day."""
    brave_usd_per_call: Annotated[float, FIXED] = 0.005
    """The published price of the Base plan: 5 USD per 1,000 calls."""
    serpapi_usd_per_call: Annotated[float, FIXED] = 0.015
    """The published price of the Developer plan: 75 USD per 5,000 calls."""
    tavily_usd_per_call: Annotated[float, FIXED] = 0.008
    """The published pay-as-you-go price of one credit, which is one basic search."""


class CrawlSettings(Value):
    """Crawling. Off until `enabled`."""

    enabled: bool = False
    max_pages: Annotated[int, Field(ge=1)] = 8
    """Pages of one run, seeds and links together."""
    max_depth: Annotated[int, Field(ge=0, le=5)] = 1
    """Links that a run follows from its seeds, unless the request says otherwise."""
    page_timeout_seconds: Annotated[float, FIXED] = 15.0
    """Time limit of fetching a page, redirects included; rendering it may take as long again."""
    page_deadline_seconds: Annotated[float, FIXED] = 30.0
    """Time limit of a page in all: every robots.txt on the way, turns, redirects, fetching and rendering. As long
    as fetching and rendering may take together, so that a page that waited longer than a healthy site needs goes back
    to the queue. Only the start of a browser comes on top."""
    max_page_bytes: Annotated[int, FIXED] = 10_000_000
    """Largest page, as sent and once decompressed; documentation pages are under one million."""
    requests_per_second_per_host: Annotated[float, Field(gt=0)] = 2.0
    """Rate of all workers together; a person who reads quickly is not faster."""
    breaker_reset_seconds: Annotated[float, FIXED] = 60.0
    """Pause of a host that failed more than half of its last 20 requests (at least 10), before one request tries it
    again: a restart of a site takes about as long."""
    user_agent: Annotated[str, FIXED] = "SluiceBot/0.3"
    """Product token and version, by which a site can name us in its robots.txt; `contact` is appended."""
    render: Literal["auto", "always", "never"] = "auto"
    chromium_path: Path | None = None
    """A Chromium binary; by default Playwright's own, else one found on the PATH."""
    browser_pages: Annotated[int, FIXED] = 2
    """Pages that one worker renders at the same time."""
    browser_recycle_pages: Annotated[int, FIXED] = 200
    """Pages after which a warm browser is replaced by a new one, so that leaks of pages stay small."""
    browser_memory_bytes: Annotated[int, FIXED] = 550_000_000
    """Memory of the browser's processes together, their program left out; above it the largest page process is
    ended. With two ordinary pages they take some 250 MB. The program, some 60 MB, and the worker, some 300 MB, come on
    top: a gigabyte in all."""
    browser_network: Literal["isolated", "preferred", "shared"] = "preferred"
    """Whether the browser lives in a network namespace from which only the egress proxy can be reached. `isolated`:
    always, else nothing is rendered; `preferred`: where the system allows one; `shared`: never."""
    max_nodes: Annotated[int, FIXED] = 200_000
    """Most elements of one page: a specification of a thousand printed pages has a hundred thousand."""
    max_requests_per_page: Annotated[int, FIXED] = 300
    """Requests that a rendered page may make; heavy ones make two hundred."""
    contact: Annotated[str, Field(max_length=200, pattern=r"^[ -~]*$")] = ""
    """A web or mail address under which a site's owner finds you. Without one the user agent does not identify you, and
    `sluice doctor` warns of it."""

    @property
    def agent(self) -> str:
        """The user agent as sites see it: `SluiceBot/0.3 (+https://example.org/bot)`."""
        if not self.contact or self.contact in self.user_agent:
            return self.user_agent
        return f"{self.user_agent} (+{self.contact})"

    @property
    def run_bytes(self) -> int:
        """Bytes for the pages of one run together, divided among them beforehand."""
        return self.max_pages * self.max_page_bytes


class FreshnessSettings(Value):
    """Freshness of pages: how long they count as fresh, and when they are fetched again. Requires `crawl.enabled`."""

    every_hours: Annotated[float, Field(ge=0)] = 0.0
    """Interval at which `sluice up` fetches due pages again. 0: only `sluice freshness --recheck` does."""
    half_life_days: Annotated[float, Field(gt=0)] = 30.0
    """Time after which a page without history is more likely to have changed than not, and is due. The page's own
    history counts the more, the longer it is watched."""
    target_age_days: Annotated[dict[str, float], FIXED] = Field(
        default_factory=lambda: {"marketing": 7.0, "code": 30.0}
    )
    """By profile of the gate, the median age of the documents that its answers cite. Pages that they cite are due by
    then; an alert fires where it is exceeded."""
    max_pages: Annotated[int, FIXED] = 1_000
    """Pages that are fetched again at a time, the longest overdue first. The ceilings of the day hold besides."""


class ChunkSettings(Value):
    """Chunking, in tokens of the embedding model. A chunk and the breadcrumb above it fit the window together."""

    max_tokens: Annotated[int, Field(ge=32, le=8_000)] = 220
    """Largest chunk; the rest of the window is for its title and headings."""
    window_tokens: Annotated[int, Field(ge=64, le=32_000)] = 254
    """Window of the model: the local model's 256 less its two special tokens."""
    code_pack_tokens: Annotated[int, FIXED] = 80
    """Neighbouring symbols of together at most this many tokens share a chunk: accessors and constants."""
    max_document_tokens: Annotated[int, FIXED] = 2_000_000
    """Tokens read of one document, twice the Bible; the rest is left out and named as a gap. The local model reads for
    five minutes on two cores; longer documents are data dumps, or made to fill memory."""

    @model_validator(mode="after")
    def _fits(self) -> ChunkSettings:
        if self.max_tokens > self.window_tokens:
            raise ValueError("max_tokens may not exceed window_tokens, which is what the embedding model reads")
        return self


class CorpusEmbedSettings(Value):
    """The model of some corpora, where it differs from the general one. Unset fields keep the general value."""

    provider: Literal["local", "openai"] | None = None
    fallback: Literal["none", "local"] | None = None
    precision: Literal["fp32", "int8"] | None = None
    openai_base_url: str | None = None
    openai_api_key: SecretStr | None = None
    openai_model: str | None = None
    openai_dimension: Annotated[int, Field(ge=1)] | None = None
    openai_request_dimension: bool | None = None
    openai_fingerprint: str | None = None
    openai_usd_per_million_tokens: Annotated[float, Field(ge=0)] | None = None


class EmbedSettings(Value):
    """Embedding: the local model by default, an OpenAI-compatible endpoint if one is given.

    `corpora` gives some corpora another model, by the pattern of their names: `[embed.corpora."code-*"]` with a
    model for source code. The name decides, not the content of the documents, because a corpus holds vectors of
    one model only: otherwise its first document would choose for all that follow, another first document would have
    chosen differently, and a question, which has no content type, must find the model before anything is read. For
    a model per type of content, keep a corpus per type.
    """

    corpora: dict[str, CorpusEmbedSettings] = Field(default_factory=dict)
    """By shell pattern (`code-*`); the first match counts. A corpus that has vectors keeps their model: if that
    is no longer configured it is an error, never replaced by another."""

    provider: Literal["local", "openai"] = "local"
    fallback: Literal["none", "local"] | None = None
    """Replacement for an unreachable endpoint. `local`: chunks get vectors of the local model too, in a second index,
    which answers during an outage (`index.engine` local alone; `sluice rebuild` fills it for a corpus that was there
    before). Unset: the local model, if its vectors are the same (`openai_fingerprint` is its own)."""
    precision: Literal["fp32", "int8"] = "fp32"
    """Precision of the local model. int8 is three times as fast; its vectors are of cosine 0.99 and more to those of
    fp32, which changes nDCG@10 by less than 1 %, and are never mixed with them. It needs a processor with VNNI (Intel
    since 2019, AMD since 2022), which is checked at load."""
    openai_base_url: str | None = None
    """The endpoint, up to and including `/v1`; by default OpenAI's own."""
    openai_api_key: SecretStr | None = None
    openai_model: str = "text-embedding-3-small"
    openai_dimension: Annotated[int, Field(ge=1)] = 1536
    """Columns of the model's vectors; an answer of another width is refused."""
    openai_request_dimension: Annotated[bool | None, FIXED] = None
    """Whether requests ask the endpoint to shorten its vectors to `openai_dimension`. Unset: only for
    text-embedding-3, as most other models refuse."""
    openai_fingerprint: str | None = None
    """Set it to another embedder's fingerprint if the endpoint gives the same vectors; by default its own."""
    openai_usd_per_million_tokens: Annotated[float, Field(ge=0)] = 0.02
    """The list price of text-embedding-3-small."""
    openai_timeout_seconds: Annotated[float, FIXED] = 30.0
    """Time limit per attempt; a full batch takes a hosted model a few seconds."""
    openai_batch_texts: Annotated[int, FIXED] = 256
    """Texts per request. OpenAI takes 2,048; smaller batches lose less when one fails."""
    openai_max_text_tokens: Annotated[int, FIXED] = 8_192
    """Estimated tokens of one text, the window of text-embedding-3; a longer text is cut there."""
    openai_proxy_url: str | None = None
    """A proxy for the requests; the proxy variables of the environment are not read."""
    threads: Annotated[int, Field(ge=0)] = 0
    """Threads of one forward pass; 0 takes every core."""
    model_dir: Path | None = None
    """Folder of the local model's files; by default `models` in the data directory."""

    @property
    def requests_dimension(self) -> bool:
        """Whether requests ask the endpoint for vectors of `openai_dimension`."""
        if self.openai_request_dimension is not None:
            return self.openai_request_dimension
        return self.openai_model.startswith("text-embedding-3")

    @property
    def uses_endpoint(self) -> bool:
        """Whether texts of some corpus are embedded by an endpoint, outside of this process."""
        return "openai" in (self.provider, *(one.provider for one in self.corpora.values()))

    def of_corpus(self, corpus: str) -> EmbedSettings:
        """Return the settings of one corpus by its name: these, with the changes of the first matching pattern."""
        for pattern, changed in self.corpora.items():
            if fnmatchcase(corpus, pattern):
                return self.changed_by(changed)
        return self

    def changed_by(self, changed: CorpusEmbedSettings) -> EmbedSettings:
        """Return these settings with the fields that `changed` sets."""
        return self.model_copy(update={name: value for name, value in changed if value is not None})
