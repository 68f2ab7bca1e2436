"""The registered domain of a URL, and whether one domain covers another."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit


def parse_host(url: str | None) -> str | None:
    """The host of a URL in lower case; None where there is none."""
    if not url:
        return None
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def is_under(host: str | None, domains: Iterable[str]) -> bool:
    """Whether the host is one of the domains or below one of them."""
    if host is None:
        return False
    return any(host == domain or host.endswith(f".{domain}") for domain in map(_plain, domains))


def _plain(domain: str) -> str:
    return domain.lower().strip(".")
