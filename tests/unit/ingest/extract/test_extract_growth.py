"""Extraction takes time in proportion to the page, whatever the page is made of: each pattern once took its square."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

PAGE_BYTES = 1_500_000
CPU_SECONDS = 20
"""Hard: the kernel ends the child. The slowest of these takes a few seconds, and minutes where it is quadratic."""

EXTRACT = """
import sys
from sluice.ingest.extract.extract import extract
start, piece = (bytes.fromhex(part) for part in sys.argv[2:4])
page = start + piece * ((int(sys.argv[4]) - len(start)) // len(piece))
extract(page, sys.argv[1], url="http://a.example/")
"""

NESTED = 230
"""As deep as the parser goes, nearly: it cuts at 256."""


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"<p>", b"<script></script>x"),
        (b"<p>", b"<i hidden>y</i>x "),
        (b"<div>", b"<nav>y</nav>x "),
        (b"<div>", b"<div class=sidebar>y</div>x "),
        (b"<p>", b"<a href=#x>&para;</a>x "),
        (b"<p>", b"<span class=title>x</span>"),
        (b"<p>", b"<span class=title></span>"),
        (b"<div><span class=title>x</span>" * NESTED, b"<i></i>"),
        (b"<div><span class=title>x</span>" * NESTED, b"some words "),
        (b"<summary class=title>" * NESTED, b"<i></i>"),
        (b"<div class=sidebar>" * NESTED, b"some words "),
        (b"<div class=sidebar>" * NESTED, b"<i></i>"),
        (b"<table><tr><td>" * (NESTED // 3), b"<i></i>"),
        (b"<table><tr><td>" * (NESTED // 3), b"some words "),
        (b"<header>" * NESTED, b"<i></i>"),
        (b"<article><p>words", b"<h2>x</h2><p><a href=y>z</a></p>"),
        (b"<article>" + b"<h2>x</h2><ul><li>" * (NESTED // 2), b"<a href=y>z</a> "),
        (b"<div>", b"<p>a short one<p><a href=y>z</a>"),
        (b"<div>" * NESTED, b"<div>a short one</div><a href=y>z</a>"),
        (b"<ul><li>" * (NESTED // 2), b"<a href=y>z</a><p>words"),
        (b"<pre>", b"<span class=comment>x</span>"),
    ],
)
def test_a_page_that_is_made_to_hang_us_is_extracted_in_linear_time(start: bytes, piece: bytes) -> None:
    extract_limited("text/html", start, piece)


@pytest.mark.parametrize("kind", ["item", "entry"])
def test_a_feed_of_items_within_items_is_read_once(kind: str) -> None:
    start = f"<rss><channel>{f'<{kind}><title>x</title><description>' * (NESTED // 2)}".encode()
    extract_limited("application/rss+xml", start, b"&lt;b&gt;some&lt;/b&gt; words ")


def extract_limited(media_type: str, start: bytes, piece: bytes) -> None:
    arguments = [media_type, start.hex(), piece.hex(), str(PAGE_BYTES)]
    done = subprocess.run(
        [sys.executable, "-c", EXTRACT, *arguments], preexec_fn=limited, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-500:] or f"killed after {CPU_SECONDS} s of CPU"
