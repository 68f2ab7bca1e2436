"""What an HTML page says to a crawler: where it leads, what it forbids, and whether it needs a browser.

One parse serves all three, and takes time in proportion to the page (`ingest.extract.html.tree`). What the directives
of `<meta name="robots">` mean is `ingest.politeness.robots_rules`'s to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from lxml.etree import _Element as Element
from lxml.etree import iterwalk

from sluice.contracts.known_pages import PageLink
from sluice.ingest.crawl.links import links_of, refreshes
from sluice.ingest.extract.html.tree import read_tree
from sluice.ingest.url import canonical_of

SHELL_TEXT_CHARACTERS = 200
"""A page with scripts and less visible text than this is a shell that a script fills."""
NOTICE_CHARACTERS = 10_000
"""Text for browsers without scripts that is looked at; a notice is a sentence or two."""
ROOT_IDS = frozenset({"root", "app", "__next", "__nuxt", "___gatsby", "svelte", "main-app", "react-root", "ember-app"})
"""The ids under which the common frameworks build their page."""
MAX_ROOTS = 10
"""Elements with such an id that are looked at; a page has one."""
COUNTED_CHARACTERS = 2_000
"""Up to which a page's text is counted; more does not change what is thought of it."""
MUCH_LONGER = 2
"""Times the text that a page showed without a browser, from which on one was of use."""

_ASKS_FOR_SCRIPTS = re.compile(
    r"(enable|requires?|needs?|turn on|activate|without)\s+(\w+\s+){0,3}javascript|javascript\s+(\w+\s+){0,3}"
    r"(enabled|required|disabled)",
    re.IGNORECASE,
)
_UNSEEN = frozenset({"script", "style", "noscript", "template", "title", "svg"})
"""The head itself is looked into: without a `<body>` the parser puts a `<main>` there."""


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What a page says. `anchors` are its links, those of the same site first, whatever it asks of robots."""

    anchors: tuple[PageLink, ...] = ()
    meta_robots: tuple[tuple[str, str], ...] = ()
    """Name, in lower case, and content of its `<meta>` elements for robots: see `ingest.politeness.robots_rules`."""
    canonical_url: str | None = None
    """The address under which it wants to be known, within its own registered domain: see `ingest.url.canonical_of`.

    A hint: the page's document is that of the address that answered.
    """
    browser_reason: str | None = None
    """The evidence that it shows its content only in a browser."""
    text_characters: int = 0
    """Of text outside scripts and the like, counted up to `COUNTED_CHARACTERS`."""


def read_page(html: str, url: str, token: str) -> PageFacts:
    """The facts of the page `html` at `url`, for the robot with the product token `token`."""
    tree = read_tree(html)
    if tree is None:
        return PageFacts()
    text_characters = _visible_characters(tree)
    return PageFacts(
        anchors=links_of(tree, url),
        meta_robots=tuple(_meta_robots(tree, token)),
        canonical_url=canonical_of(_declared_canonical(tree), url),
        browser_reason=_browser_reason(tree, text_characters),
        text_characters=text_characters,
    )


def browser_helped(before: PageFacts, after: PageFacts) -> bool:
    """Whether a browser showed much more text (`after`) than the page had without one (`before`)."""
    return after.text_characters >= max(SHELL_TEXT_CHARACTERS, MUCH_LONGER * before.text_characters)


def _meta_robots(tree: Element, token: str) -> Iterator[tuple[str, str]]:
    for meta in tree.iter("meta"):
        name = (meta.get("name") or "").strip().lower()
        if name in {"robots", token.lower()}:
            yield name, meta.get("content") or ""


def _declared_canonical(tree: Element) -> str | None:
    """The address of the first `<link rel=canonical>` (RFC 6596)."""
    for link in tree.iter("link"):
        if "canonical" in (link.get("rel") or "").lower().split():
            declared: str | None = link.get("href")
            return declared
    return None


def _browser_reason(tree: Element, text_characters: int) -> str | None:
    if text_characters >= SHELL_TEXT_CHARACTERS:
        return None
    if any(refreshes(tree)):
        return "it redirects by a meta refresh"
    scripts = sum(1 for script in tree.iter("script") if _is_program(script))
    if _ASKS_FOR_SCRIPTS.search(_notices(tree)) or (scripts and _ASKS_FOR_SCRIPTS.search(_visible_text(tree))):
        return "it asks for JavaScript"
    if scripts and _has_empty_root(tree):
        return "its root element is empty until a script fills it"
    if scripts:
        return f"{text_characters} characters of text beside {scripts} scripts"
    return None


def _notices(tree: Element) -> str:
    """The beginning of what the page says where no script runs."""
    found: list[str] = []
    left = NOTICE_CHARACTERS
    for piece in chain.from_iterable(element.itertext() for element in _outermost(tree, "noscript")):
        found.append(piece[:left])
        left -= len(piece)
        if left <= 0:
            break
    return " ".join(found)


def _outermost(tree: Element, tag: str) -> Iterator[Element]:
    """Elements `tag` that stand in no other such: what is in one is read once."""
    walk = iterwalk(tree, events=("start",), tag=tag)
    for _, element in walk:
        walk.skip_subtree()
        yield element


def _is_program(script: Element) -> bool:
    """Data islands (JSON-LD, import maps) fill no page."""
    kind = (script.get("type") or "").strip().lower()
    return kind in {"", "module"} or "javascript" in kind


def _has_empty_root(tree: Element) -> bool:
    named = (one for one in tree.iter("div", "main", "section") if (one.get("id") or "").lower() in ROOT_IDS)
    return any(not any(map(str.strip, root.itertext())) for root in islice(named, MAX_ROOTS))


def _visible_characters(tree: Element) -> int:
    """Characters of text outside scripts and the like; stops counting once there are enough."""
    count = 0
    for piece in _visible_pieces(tree):
        count += len(piece)
        if count >= COUNTED_CHARACTERS:
            break
    return count


def _visible_text(tree: Element) -> str:
    return " ".join(_visible_pieces(tree))


def _visible_pieces(tree: Element) -> Iterator[str]:
    """Text pieces in document order, each read only when it is asked for; without recursion: hostile pages nest."""
    walk = iterwalk(tree, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            piece = element.tail
        elif element.tag in _UNSEEN:
            walk.skip_subtree()
            continue
        else:
            piece = element.text
        if piece and (words := " ".join(piece.split())):
            yield words
