"""Pages for a measured run: paragraphs of Python's own documentation, cut into pages of drawn lengths, none twice."""

from __future__ import annotations

import html
import math
import pydoc
import random
import re
import threading
import time
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import NormalDist
from typing import Any

from bench.demo.library import load, module_names

LETTERS_PER_PAGE = 8_000
"""Mean length of a page's text: some ten passages of 220 tokens."""
SPREAD = 0.5
"""Standard deviation of the logarithm of a page's length: one page of six is longer than 1.4 means."""


@cache
def paragraphs() -> tuple[str, ...]:
    """Return each paragraph of 60 to 2,000 letters that pydoc shows of the standard modules, once, in a fixed order."""
    found: dict[str, None] = {}
    for name in module_names():
        module = load(name)
        if module is None:
            continue
        for part in re.split(r"\n[ |]*\n", pydoc.plain(pydoc.render_doc(module))):
            text = " ".join(part.replace("|", " ").split())
            if 60 < len(text) < 2_000 and "0x" not in text:
                found[text] = None
    return tuple(found)


def make_pages(count: int, letters: int = LETTERS_PER_PAGE, seed: int = 1) -> list[str]:
    """Return `count` HTML pages of some `letters` each. Pages of one call have no paragraph in
    common. Their lengths are the quantiles of a log-normal distribution in an order drawn by `seed`, so that any two
    sets of pages are equally long.

    Raises:
        ValueError: this Python's documentation is too short for as many.
    """
    generator = random.Random(seed)
    left = list(paragraphs())
    generator.shuffle(left)
    shares = [math.exp(SPREAD * NormalDist().inv_cdf((at + 0.5) / count) - SPREAD**2 / 2) for at in range(count)]
    generator.shuffle(shares)
    pages = []
    for number, share in enumerate(shares):
        parts: list[str] = []
        while sum(map(len, parts)) < share * letters:
            if not left:
                raise ValueError(f"there is text for {number} pages, and {count} are wanted: take fewer")
            parts.append(left.pop())
        title = " ".join(parts[0].split()[:6])
        body = "".join(f"<h2>Part {at}</h2><p>{html.escape(part)}</p>" for at, part in enumerate(parts, 1))
        pages.append(f"<html><head><title>{html.escape(title)}</title></head><body>{body}</body></html>")
    return pages


class PageSite:
    """Serves pages at `/0.html`, `/1.html`, … on loopback; each answer takes `delay_seconds`."""

    def __init__(self, pages: list[str], delay_seconds: float = 0.0) -> None:
        bodies = {f"/{at}.html": page.encode() for at, page in enumerate(pages)}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = bodies.get(self.path, b"")
                if body:
                    time.sleep(delay_seconds)
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, number: int) -> str:
        """The address of a page."""
        return f"http://{self.address}/{number}.html"

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
