"""The limits of the egress proxy, and what is said of a request that goes beyond one.

Limits are kept where they are met: by the account, by its slots, by the relay. They all refuse in these words.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.ingest.egress.http_heads import Target
from sluice.ingest.egress.rules import Refusal


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """What one proxy carries at most. Constants; only tests choose others."""

    connect_timeout_seconds: float = 5.0
    """Name lookup and connection together; a healthy host needs well under one second."""
    idle_timeout_seconds: float = 20.0
    """How long a connection may carry nothing before it is cut."""
    max_connection_seconds: float = 120.0
    """Of one connection in all, however steadily it carries something."""
    max_response_bytes: int = 20_000_000
    """What one connection may bring in; twice the largest page that is kept."""
    max_connections: int = 64
    """Open connections at a time: two browser pages with their parts, and every crawl thread besides."""
    max_connections_per_crawl: int = 32
    """Open at a time for one page and its parts: a browser opens so many by one proxy, and closes idle ones itself when
    it wants more. With fewer it would wait for what it does not know of; half the proxy stays free."""
    max_connections_per_host: int = 12
    """Open at a time to one host, of all crawls of this process together."""
    max_bytes_per_crawl: int = 60_000_000
    """In both directions, for one page and all its parts."""
    max_hosts_per_crawl: int = 100
    """Names that one page may have looked up: a page of many advertisements has some sixty."""
    resolver_threads: int = 16
    """Names looked up at a time; one that does not answer holds its thread until the system gives up."""


USUAL_LIMITS = EgressLimits()


def beyond(target: Target, rule: str, limits: EgressLimits) -> Refusal:
    """The refusal of what goes beyond a limit. Rules: `bytes`, `time`, `requests`, `hosts`, `connections`."""
    details = {
        "bytes": f"more than {limits.max_response_bytes} bytes over one connection, or too many of one crawl",
        "time": f"more than {limits.max_connection_seconds:g} seconds over one connection",
        "requests": "too many requests of one crawl",
        "hosts": f"more than {limits.max_hosts_per_crawl} hosts in one crawl",
        "connections": f"more than {limits.max_connections_per_crawl} connections of one crawl at a time",
    }
    return Refusal(target.host, target.port, rule, details[rule])
