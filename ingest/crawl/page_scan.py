"""Scans an HTML page for a crawler: its links, its prohibitions, and whether it needs a browser.

One parse serves all three, and takes time in proportion to the page (`ingest.extract.html.nodes`). A link's address is
given once, absolute and in its canonical form, with what a reader sees of it; one that no reader could follow (hidden,
marked `nofollow`, not of the web) is none. What the directives of `<meta name="robots">` mean is
`ingest.politeness.robots_rules`'s to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from lxml.etree import XPath, iterwalk
from lxml.etree import _Element as Element

from sluice.contracts.errors import InvalidInput
from sluice.contracts.known_pages import PageLink
from sluice.ingest.extract.css.bounded_cache import kept_if_short
from sluice.ingest.extract.css.visibility import hides
from sluice.ingest.extract.html.nodes import read_tree
from sluice.ingest.url import canonical_of, normalise_url, site_of

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
