"""What is fuzzed: each target takes one input and has to end, with a result or with one of our own errors.

A target raises `AssertionError` where a promise is broken; any other exception that is no `SluiceError` is a finding
as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

from sluice.contracts.errors import SluiceError
from sluice.ingest.crawl.frontier import why_trap
from sluice.ingest.crawl.page_scan import read_page
from sluice.ingest.egress.rules import canonical_host, check_address
from sluice.ingest.extract.charset import decode
from sluice.ingest.extract.extract import extract
from sluice.ingest.extract.pdf import extract_pdf
from sluice.ingest.politeness.robots_rules import read_robots as robots_rules
from sluice.ingest.url import canonical_of, host_of, normalise_url, origin_of, registered_domain, same_site
from tests.chaos.fuzz import inputs

_BASE = "http://example.org/folder/page?q=1"
_TOKEN = "SluiceBot"
_PATHS = ("/", "/a", "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "/%C3%A9?q=1&r=2", "/a/b/c.html")
_INVISIBLE = ("\u200b", "\u202e", "\U000e0041", "\0")


def read_address(text: str) -> None:
    """Addresses: what is accepted stays as it is when it is read again, and can be asked for its parts."""
    for base in (None, _BASE):
        with contextlib.suppress(SluiceError):
            url = normalise_url(text, base=base)
            assert normalise_url(url) == url, f"{url!r} reads as {normalise_url(url)!r}"
            assert url.isascii(), f"{url!r} is not ASCII"
            assert url.startswith(("http://", "https://")), f"{url!r} is no address of the web"
            host = host_of(url)
            registered_domain(host)
            assert origin_of(url), f"{url!r} has no origin"
            assert same_site(url, url), f"{url!r} is not on its own site"
            assert canonical_host(host), f"{url!r}: the proxy does not know its host {host!r}"
            why_trap(url, (url, _BASE))
    canonical_of(text, _BASE)
    canonical_host(text)
    check_address(text)


def read_robots(body: bytes) -> None:
    """robots.txt: whatever it says, there is an answer, and robots.txt itself is open."""
    rules = robots_rules(body, _TOKEN)
    for path in _PATHS:
        rules.decision(f"http://example.org{path}")[0]
        rules.decision(f"http://example.org{path}")[1]
    assert rules.decision("http://example.org/robots.txt")[0], "robots.txt is closed"
    delay = rules.crawl_delay_seconds
    assert delay is None or 0 <= delay < float("inf"), f"a delay of {delay}"


def read_html(body: bytes) -> None:
    """Pages: read or refused by name; what is invisible does not come out."""
    with contextlib.suppress(SluiceError):
        read_page(decode(body, None), _BASE, _TOKEN)
    with contextlib.suppress(SluiceError):
        found = extract(body, "text/html", url=_BASE)
        for text in (found.text, found.title or "", found.author or ""):
            assert not any(one in text for one in _INVISIBLE), "invisible characters come out"


def read_pdf(body: bytes) -> None:
    """PDFs, in the child that reads them."""
    with contextlib.suppress(SluiceError):
        extract_pdf(body)


@dataclass(frozen=True, slots=True)
class Target:
    """A function, its inputs, and how much processor time one input may take, in seconds."""

    run: Callable[[Any], None]
    inputs: SearchStrategy[Any]
    cpu_seconds: float
    wall_seconds: float
    """Of one input; a child's time is not our processor's."""
    examples: int
    """In one round; rounds follow one another, each with a seed of its own."""


TARGETS: dict[str, Target] = {
    "url": Target(read_address, inputs.urls, cpu_seconds=0.5, wall_seconds=60, examples=2_000),
    "robots": Target(read_robots, inputs.robots, cpu_seconds=1.0, wall_seconds=60, examples=1_000),
    "html": Target(read_html, inputs.html, cpu_seconds=3.0, wall_seconds=120, examples=300),
    "pdf": Target(read_pdf, inputs.pdfs, cpu_seconds=2.0, wall_seconds=150, examples=30),
}
