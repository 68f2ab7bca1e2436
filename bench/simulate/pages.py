"""Pages for a measured run: paragraphs of Python's own documentation, cut into pages of drawn lengths, none twice."""

from __future__ import annotations

import html
import math
import pydoc
import random
import re
from functools import cache
from statistics import NormalDist

from bench.demo.library import load, module_names

CHARACTERS_PER_PAGE = 8_000
"""Mean length of a page's text: some ten passages of 220 tokens."""
SPREAD = 0.5
"""Standard deviation of the logarithm of a page's length: one page of six is longer than 1.4 means."""


@cache
def paragraphs() -> tuple[str, ...]:
    """Return each paragraph of 60 to 2,000 characters that pydoc shows of the standard modules, in a fixed order."""
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


def make_pages(count: int, characters: int = CHARACTERS_PER_PAGE, seed: int = 1) -> list[str]:
    """Return `count` HTML pages of some `characters` each. Pages of one call have no paragraph in
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
        while sum(map(len, parts)) < share * characters:
            if not left:
                raise ValueError(f"there is text for {number} pages, and {count} are wanted: take fewer")
            parts.append(left.pop())
        title = " ".join(parts[0].split()[:6])
        body = "".join(f"<h2>Part {at}</h2><p>{html.escape(part)}</p>" for at, part in enumerate(parts, 1))
        pages.append(f"<html><head><title>{html.escape(title)}</title></head><body>{body}</body></html>")
    return pages
