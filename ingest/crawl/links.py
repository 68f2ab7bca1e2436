"""Where a page leads: the addresses of its links, and what a reader sees of each.

Promises: an address is given once, absolute and in its canonical form; one that no reader could follow (hidden, marked
`nofollow`, not of the web) is none. Whatever a page is, finding them takes time in proportion to its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml.etree import XPath, iterwalk
from lxml.etree import _Element as Element

from sluice.contracts.errors import InvalidInput
from sluice.contracts.known_pages import PageLink
from sluice.ingest.extract.css.bounded_cache import kept_if_short
from sluice.ingest.extract.css.visibility import hides
from sluice.ingest.url import normalise_url, site_of

MAX_LINKS = 2_000
"""Links read from one page; a page with more is an index that no allowance covers."""
MAX_TEXT_CHARACTERS = 200
"""Of one link's text; a title is shorter."""
MAX_TEXT_PIECES = 20
"""Pieces of which a link's text is put together: icons and emphasis within it."""
MAX_STYLE_CHARACTERS = 1_000
"""Of a style attribute that is judged; a longer one draws something."""

_REFRESH = re.compile(
    r"\s*+\d++(?:\.\d*+)?\s*+[;,]?\s*+(?:url\s*+=\s*+)?(?P<quote>['\"]?)(?P<url>[^\n]*?)(?P=quote)", re.IGNORECASE
)
"""Possessive, since backtracking over a page's own white space is how a page would hang us; wants no space after it."""
_MAYBE_HIDDEN = XPath("//*[@hidden or @style]")


def links_of(tree: Element, url: str) -> tuple[PageLink, ...]:
    """The links of the page `tree` at `url`, those of the same site first; at most `MAX_LINKS` are looked at.

    Where several lead to one address, the first that has a text tells it.
    """
    found: dict[str, str] = {}
    for address, text in _addresses(tree, url):
        if not found.get(address):
            found[address] = text
    found.pop(url, None)
    site, near, far = site_of(url), list[PageLink](), list[PageLink]()
    for address, text in found.items():
        (near if site_of(address) == site else far).append(PageLink(address, text))
    return tuple(near + far)


def refreshes(tree: Element) -> Iterator[str]:
    """Where each `<meta http-equiv=refresh>` leads, now or later; those that only reload are none."""
    for meta in tree.iter("meta"):
        if (meta.get("http-equiv") or "").strip().lower() == "refresh":
            match = _REFRESH.fullmatch((meta.get("content") or "").rstrip())
            if match and (target := match["url"].strip()):
                yield target


def _addresses(tree: Element, url: str) -> Iterator[tuple[str, str]]:
    base = _base(tree, url)
    for read, (reference, text) in enumerate(_references(tree)):
        if read == MAX_LINKS:
            return
        try:
            yield normalise_url(reference, base=base), text
        except InvalidInput:
            continue  # mailto:, javascript:, a typing mistake: no page


def _references(tree: Element) -> Iterator[tuple[str, str]]:
    for target in refreshes(tree):
        yield target, ""
    for anchor in _anchors_in_sight(tree):
        reference = (anchor.get("href") or "").strip()
        if reference and not reference.startswith("#") and "nofollow" not in (anchor.get("rel") or "").lower().split():
            yield reference, _text(anchor)


def _anchors_in_sight(tree: Element) -> Iterator[Element]:
    """Links that are not within something hidden. What a style sheet hides is for a browser to say."""
    hidden = {element for element in _MAYBE_HIDDEN(tree) if _is_hidden(element)}
    if not hidden:
        yield from tree.iter("a", "area")
        return
    walker = iterwalk(tree, events=("start",))
    for _, element in walker:
        if element in hidden:
            walker.skip_subtree()
        elif element.tag in ("a", "area"):
            yield element


def _is_hidden(element: Element) -> bool:
    """Whether the attributes of `element` take it out of sight; `hidden=until-found` is shown when it is looked for."""
    hidden = element.get("hidden")
    return (hidden is not None and hidden.strip().lower() != "until-found") or _hides(
        (element.get("style") or "")[:MAX_STYLE_CHARACTERS]
    )


@kept_if_short(1_000)
def _hides(style: str) -> bool:
    """As `hides`: a page uses few styles, many times each."""
    return bool(style) and hides(style)


def _text(anchor: Element) -> str:
    found = anchor.text or ""
    if len(anchor):
        pieces = (piece for _, piece in zip(range(MAX_TEXT_PIECES), anchor.itertext(), strict=False))
        found = " ".join(piece[:MAX_TEXT_CHARACTERS] for piece in pieces)
    return _line(found) or _line(anchor.get("title") or anchor.get("aria-label") or "")


def _line(text: str) -> str:
    return " ".join(text[: 2 * MAX_TEXT_CHARACTERS].split())[:MAX_TEXT_CHARACTERS].rstrip()


def _base(tree: Element, url: str) -> str:
    for element in tree.iter("base"):
        try:
            return normalise_url(element.get("href") or "", base=url)
        except InvalidInput:
            return url
    return url
