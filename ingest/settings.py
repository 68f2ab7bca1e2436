"""Settings of search, crawl, chunk and embed. Each default carries its unit and its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from contracts.base import Value


class EgressSettings(Value):
    """What may leave this machine, and whither."""

    allow: tuple[str, ...] = ()
    """Explicit `host:port` entries that may be reached although their address is not globally routable."""
    allow_domains: tuple[str, ...] = ()
    """If not empty, only these domains (and their subdomains) may be reached."""
    deny_domains: tuple[str, ...] = ()
    """Domains (and their subdomains) that may never be reached."""
    ports: tuple[int, ...] = (80, 443)
    connect_timeout_seconds: Annotated[float, Field(gt=0)] = 5.0
    max_response_bytes: Annotated[int, Field(gt=0)] = 20_000_000
    max_connections: Annotated[int, Field(gt=0)] = 64
    idle_timeout_seconds: Annotated[float, Field(gt=0)] = 20.0


class SearchSettings(Value):
    """Web search. Off until `enabled`."""

    enabled: bool = False
    providers: tuple[Literal["searxng", "brave", "serpapi", "tavily", "ddgs"], ...] = ()
    """In order of fail-over."""
    searxng_url: str | None = None
    brave_api_key: SecretStr | None = None
    serpapi_api_key: SecretStr | None = None
    tavily_api_key: SecretStr | None = None
    locale: str = "en-US"
    top_k: Annotated[int, Field(ge=1, le=50)] = 8
    timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
    allow_domains: tuple[str, ...] = ()
    """If not empty, results from other domains are dropped."""
    quota_per_day: Annotated[int, Field(ge=0)] = 1_000
    """Calls per provider and day."""


class CrawlSettings(Value):
    """Crawling. Off until `enabled`."""

    enabled: bool = False
    max_pages: Annotated[int, Field(ge=1)] = 8
    """Pages of one run, seeds and links together."""
    max_depth: Annotated[int, Field(ge=0, le=5)] = 1
    max_bytes: Annotated[int, Field(ge=1)] = 50_000_000
    page_timeout_seconds: Annotated[float, Field(gt=0)] = 30.0
    requests_per_second_per_host: Annotated[float, Field(gt=0)] = 2.0
    user_agent: str = "SluiceBot/0.1 (+https://sluice.invalid/bot)"
    render: Literal["auto", "always", "never"] = "auto"
    chromium_path: Path | None = None
    """A Chromium binary; by default Playwright's own, else one found on the PATH."""
    browser_pages: Annotated[int, Field(ge=1)] = 2
    """Pages that one worker renders at the same time."""


class ChunkSettings(Value):
    """Chunking. The ceiling is the local model's window of 256 tokens less its two special tokens."""

    max_tokens: Annotated[int, Field(ge=32, le=8_000)] = 220
    overlap_tokens: Annotated[int, Field(ge=0)] = 0


class EmbedSettings(Value):
    """Embedding: the local model by default, an OpenAI-compatible endpoint when one is given."""

    provider: Literal["local", "openai"] = "local"
    openai_base_url: str | None = None
    openai_api_key: SecretStr | None = None
    openai_model: str = "text-embedding-3-small"
    openai_dimension: Annotated[int, Field(ge=1)] = 1536
    openai_usd_per_million_tokens: Annotated[float, Field(ge=0)] = 0.02
    openai_timeout_seconds: Annotated[float, Field(gt=0)] = 30.0
    batch_size: Annotated[int, Field(ge=1)] = 8
    """Texts per forward pass; small, length-sorted batches waste least on padding."""
    threads: Annotated[int, Field(ge=0)] = 0
    """Threads of one forward pass; 0 takes every core."""
    cache_entries: Annotated[int, Field(ge=0)] = 200_000
    model_dir: Path | None = None
    """Where the local model's files are kept; by default `models` in the data directory."""
