"""Scans an HTML page for a crawler: its links, its robots directives, and whether it needs a browser.

One parse serves all three, and takes time in proportion to the page (`ingest.extract.html.nodes`). Each link address
is listed once, absolute and in canonical form, with the text that a reader sees. Links that no reader could follow
(hidden, marked `nofollow`, not web addresses) are left out. `ingest.politeness.robots_rules` interprets the
directives of `<meta name="robots">`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from sluice.contracts.errors import InvalidInput
from sluice.contracts.ingest import PageLink
from sluice.ingest.extract.css.cascade import hides
from sluice.ingest.extract.html.nodes import Nodes, read_nodes
from sluice.ingest.url import canonical_of, normalise_url, site_of

SHELL_TEXT_CHARACTERS = 200
"""A page with scripts and less visible text than this is a shell that a script fills."""
NOTICE_CHARACTERS = 10_000
"""Most text for browsers without scripts that is scanned; a notice is a sentence or two."""
ROOT_IDS = frozenset({"root", "app", "__next", "__nuxt", "___gatsby", "svelte", "main-app", "react-root", "ember-app"})
"""The ids under which the common frameworks build their page."""
MAX_ROOTS = 10
"""Most elements with such an id that are checked; a page has one."""
COUNTED_CHARACTERS = 2_000
"""Bound on counting a page's text; more text does not change the verdict."""
MUCH_LONGER = 2
"""A browser helped if it showed at least this many times the text shown without one."""

_ASKS_FOR_SCRIPTS = re.compile(
    r"(enable|requires?|needs?|turn on|activate|without)\s+(\w+\s+){0,3}javascript|javascript\s+(\w+\s+){0,3}"
    r"(enabled|required|disabled)",
    re.IGNORECASE,
)
_UNSEEN = frozenset({"script", "style", "noscript", "template", "title", "svg"})
"""Elements without visible text. `head` is searched: without a `<body>` the parser puts a `<main>` there."""


@dataclass(frozen=True, slots=True)
class PageFacts:
    """Facts of one page. `anchors` are its links, those of the same site first, whatever its robots directives."""

    anchors: tuple[PageLink, ...] = ()
    meta_robots: tuple[tuple[str, str], ...] = ()
    """Name, in lower case, and content of its `<meta>` elements for robots: see `ingest.politeness.robots_rules`."""
    canonical_url: str | None = None
    """The address that it declares, within its own registered domain: see `ingest.url.canonical_of`. A hint: the page's
    document is that of the address that answered."""
    browser_reason: str | None = None
    """Evidence that the page shows its content only in a browser."""
    text_characters: int = 0
    """Characters of text outside scripts and the like, counted up to `COUNTED_CHARACTERS`."""


def read_page(html: str, url: str, token: str) -> PageFacts:
    """Read the facts of the page `html` at `url`, for the robot with the product token `token`."""
    nodes = read_nodes(html, runs_scripts=False)
    text_characters = _visible_characters(nodes)
    return PageFacts(
        anchors=_links(nodes, url),
        meta_robots=tuple(_meta_robots(nodes, token)),
        canonical_url=canonical_of(_declared_canonical(nodes), url),
        browser_reason=_browser_reason(nodes, text_characters),
        text_characters=text_characters,
    )


def browser_helped(before: PageFacts, after: PageFacts) -> bool:
    """Return whether a browser showed much more text (`after`) than the page had without one (`before`)."""
    return after.text_characters >= max(SHELL_TEXT_CHARACTERS, MUCH_LONGER * before.text_characters)


def _attributes(nodes: Nodes, tag: str) -> Iterator[Mapping[str, str]]:
    """Return the attributes of each element `tag`, in the order of the page."""
    return (attributes for attributes, name in zip(nodes.attributes, nodes.tags, strict=True) if name == tag)


def _meta_robots(nodes: Nodes, token: str) -> Iterator[tuple[str, str]]:
    for meta in _attributes(nodes, "meta"):
        name = meta.get("name", "").strip().lower()
        if name in {"robots", token.lower()}:
            yield name, meta.get("content", "")


def _declared_canonical(nodes: Nodes) -> str | None:
    """Return the address of the first `<link rel=canonical>` (RFC 6596)."""
    links = (link for link in _attributes(nodes, "link") if "canonical" in link.get("rel", "").lower().split())
    return next((link.get("href") for link in links), None)


def _browser_reason(nodes: Nodes, text_characters: int) -> str | None:
    if text_characters >= SHELL_TEXT_CHARACTERS:
        return None
    if any(_refreshes(nodes)):
        return "it redirects by a meta refresh"
    scripts = sum(map(_is_program, _attributes(nodes, "script")))
    if _ASKS_FOR_SCRIPTS.search(_notices(nodes)) or (
        scripts and _ASKS_FOR_SCRIPTS.search(" ".join(_visible_pieces(nodes)))
    ):
        return "it asks for JavaScript"
    if scripts and _has_empty_root(nodes):
        return "its root element is empty until a script fills it"
    return f"{text_characters} characters of text beside {scripts} scripts" if scripts else None


def _notices(nodes: Nodes) -> str:
    """Return the beginning of the page's text for browsers without scripts."""
    found, characters, inside_to = list[str](), 0, 0
    for node, tag in enumerate(nodes.tags):
        if tag == "noscript":
            inside_to = max(inside_to, nodes.ends[node])
        elif node < inside_to and nodes.texts[node] and characters < NOTICE_CHARACTERS:
            found.append(nodes.texts[node][:NOTICE_CHARACTERS])
            characters += len(found[-1])
    return " ".join(found)


def _is_program(script: Mapping[str, str]) -> bool:
    """Return whether the script runs. Data islands (JSON-LD, import maps) fill no page."""
    kind = script.get("type", "").strip().lower()
    return kind in {"", "module"} or "javascript" in kind


def _has_empty_root(nodes: Nodes) -> bool:
    boxes = (node for node, tag in enumerate(nodes.tags) if tag in ("div", "main", "section"))
    roots = islice((node for node in boxes if nodes.attributes[node].get("id", "").lower() in ROOT_IDS), MAX_ROOTS)
    return any(not any(map(str.strip, nodes.texts[root : nodes.ends[root]])) for root in roots)


def _visible_characters(nodes: Nodes) -> int:
    """Return the characters of text outside scripts and the like; stops counting at `COUNTED_CHARACTERS`."""
    count = 0
    for piece in _visible_pieces(nodes):
        count += len(piece)
        if count >= COUNTED_CHARACTERS:
            break
    return count


def _visible_pieces(nodes: Nodes) -> Iterator[str]:
    """Yield texts in the order of the page, without those of scripts and the like."""
    skipped_to = 0
    for node, tag in enumerate(nodes.tags):
        if node >= skipped_to and tag in _UNSEEN:
            skipped_to = nodes.ends[node]
        elif node >= skipped_to and (words := " ".join(nodes.texts[node].split())):
            yield words


MAX_LINKS = 2_000
"""Most links read from one page; a page with more is an index that no allowance covers."""
MAX_TEXT_CHARACTERS = 200
"""Longest text of one link; a title is shorter."""
MAX_TEXT_PIECES, MAX_TEXT_ENTRIES = 20, 200
"""Most pieces joined into a link's text (icons and emphasis within it), and most entries searched for them."""
MAX_STYLE_CHARACTERS = 1_000
"""Longest style attribute that is judged; a longer one draws something."""

_REFRESH = re.compile(
    r"\s*+\d++(?:\.\d*+)?\s*+[;,]?\s*+(?:url\s*+=\s*+)?(?P<quote>['\"]?)(?P<url>[^\n]*?)(?P=quote)", re.IGNORECASE
)
"""Possessive, so that a page's own white space cannot hang us by backtracking; no space after the delay is required."""


def _links(nodes: Nodes, url: str) -> tuple[PageLink, ...]:
    """Return the links of the page at `url`, those of the same site first; reads at most `MAX_LINKS`.

    If several links share an address, the first non-empty text counts.
    """
    base, found = _base(nodes, url), dict[str, str]()
    for reference, text in islice(_references(nodes), MAX_LINKS):
        with suppress(InvalidInput):  # mailto:, javascript:, a typing mistake: no page
            address = normalise_url(reference, base=base)
            found[address] = found.get(address) or text
    found.pop(url, None)
    site = site_of(url)
    return tuple(PageLink(*link) for link in sorted(found.items(), key=lambda link: site_of(link[0]) != site))


def _refreshes(nodes: Nodes) -> Iterator[str]:
    """Yield the target of each `<meta http-equiv=refresh>`, immediate or delayed, except plain reloads."""
    for meta in _attributes(nodes, "meta"):
        if meta.get("http-equiv", "").strip().lower() == "refresh":
            match = _REFRESH.fullmatch(meta.get("content", "").rstrip())
            if match and (target := match["url"].strip()):
                yield target


def _references(nodes: Nodes) -> Iterator[tuple[str, str]]:
    """Yield addresses as the page writes them, each with its text."""
    yield from ((target, "") for target in _refreshes(nodes))
    for node in _anchors_in_sight(nodes):
        anchor = nodes.attributes[node]
        reference = anchor.get("href", "").strip()
        if reference and not reference.startswith("#") and "nofollow" not in anchor.get("rel", "").lower().split():
            yield reference, _text(nodes, node)


def _anchors_in_sight(nodes: Nodes) -> Iterator[int]:
    """Yield links outside hidden elements. Hiding by style sheets is left to a browser."""
    skipped_to = 0
    for node, (tag, attributes) in enumerate(zip(nodes.tags, nodes.attributes, strict=True)):
        if node >= skipped_to and attributes:
            if _is_hidden(attributes):
                skipped_to = nodes.ends[node]
            elif tag in ("a", "area"):
                yield node


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    """Return whether the attributes hide an element; `hidden=until-found` does not hide it."""
    hidden = attributes.get("hidden")
    return (hidden is not None and hidden.strip().lower() != "until-found") or _hides(
        attributes.get("style", "")[:MAX_STYLE_CHARACTERS]
    )


@lru_cache(maxsize=1_000)
def _hides(style: str) -> bool:
    """Call `hides` through a cache: a page uses few styles, many times each."""
    return bool(style) and hides(style)


def _text(nodes: Nodes, anchor: int) -> str:
    inside = nodes.texts[anchor + 1 : min(nodes.ends[anchor], anchor + MAX_TEXT_ENTRIES)]
    pieces = islice(filter(None, inside), MAX_TEXT_PIECES)
    attributes = nodes.attributes[anchor]
    return _line(" ".join(piece[: 2 * MAX_TEXT_CHARACTERS] for piece in pieces)) or _line(
        attributes.get("title") or attributes.get("aria-label") or ""
    )


def _line(text: str) -> str:
    return " ".join(text[: 2 * MAX_TEXT_CHARACTERS].split())[:MAX_TEXT_CHARACTERS].rstrip()


def _base(nodes: Nodes, url: str) -> str:
    for element in islice(_attributes(nodes, "base"), 1):
        with suppress(InvalidInput):
            return normalise_url(element.get("href", ""), base=url)
    return url
