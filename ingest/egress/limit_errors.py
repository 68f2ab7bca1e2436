"""What is said of a request that goes beyond a limit.

Limits are kept where they are met: by the account, by its places, by the relay. They all refuse in these words.
"""

from __future__ import annotations

from ingest.egress.http_heads import Target
from ingest.egress.rules import Refusal
from ingest.settings import EgressSettings


def beyond(target: Target, rule: str, settings: EgressSettings) -> Refusal:
    """The refusal of what goes beyond a limit. Rules: `bytes`, `time`, `requests`, `hosts`, `connections`."""
    details = {
        "bytes": f"more than {settings.max_response_bytes} bytes over one connection, or too many of one crawl",
        "time": f"more than {settings.max_connection_seconds:g} seconds over one connection",
        "requests": "too many requests of one crawl",
        "hosts": f"more than {settings.max_hosts_per_crawl} hosts in one crawl",
        "connections": f"more than {settings.max_connections_per_crawl} connections of one crawl at a time",
    }
    return Refusal(target.host, target.port, rule, details[rule])
