"""What an HTML page says to a crawler: where it leads, what it forbids, and whether it needs a browser.

One parse serves all three. Directives are those of `<meta name="robots">` and of `X-Robots-Tag`, for all
robots or for ours by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from lxml import html as lxml_html
from lxml.etree import ParserError
from lxml.html import HtmlElement

from contracts.errors import InvalidInput
from ingest.url import normalise_url, same_site

SHELL_TEXT_CHARACTERS = 200
"""A page with scripts and less visible text than this is a shell that a script fills."""
NOTICE_CHARACTERS = 10_000
"""Text for browsers without scripts that is looked at; a notice is a sentence or two."""
ROOT_IDS = frozenset({"root", "app", "__next", "__nuxt", "___gatsby", "svelte", "main-app", "react-root", "ember-app"})
"""The ids under which the common frameworks build their page."""
MAX_LINKS = 2_000
"""Links read from one page; a page with more is an index that no allowance covers."""

_ASKS_FOR_SCRIPTS = re.compile(
    r"(enable|requires?|needs?|turn on|activate|without)\s+(\w+\s+){0,3}javascript|javascript\s+(\w+\s+){0,3}"
    r"(enabled|required|disabled)",
    re.IGNORECASE,
)
_REFRESH = re.compile(
    r"\s*+\d++(?:\.\d*+)?\s*+[;,]?\s*+(?:url\s*+=\s*+)?(?P<quote>['\"]?)(?P<url>[^\n]*?)(?P=quote)", re.IGNORECASE
)
"""Possessive, since backtracking over a page's own white space is how a page would hang us; wants no space after it."""
_AGENT = re.compile(r"\s*(?P<agent>\*|[a-z_-]+)(?:/[^\s:]*)?\s*:(?P<rest>.*)")
"""A robot's name, as it stands before the directives for it: no part of a date is one."""
_DIRECTIVES_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_UNSEEN = frozenset({"script", "style", "noscript", "template", "head", "svg"})


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What a page says. `links` are absolute and normalised, those of the same site first."""

    links: tuple[str, ...] = ()
    noindex: bool = False
    nofollow: bool = False
    browser_reason: str | None = None


def read_page(html: str, url: str, token: str) -> PageFacts:
    """The facts of the page `html` at `url`, for the robot with the product token `token`."""
    tree = _parse(html)
    if tree is None:
        return PageFacts()
    directives = _meta_directives(tree, token)
    nofollow = not directives.isdisjoint({"nofollow", "none"})
    return PageFacts(
        links=() if nofollow else _links(tree, url),
        noindex=not directives.isdisjoint({"noindex", "none"}),
        nofollow=nofollow,
        browser_reason=_browser_reason(tree),
    )


def needs_browser(html: str) -> str | None:
    """The evidence that `html` shows its content only in a browser, or None where it does not need one."""
    tree = _parse(html)
    return None if tree is None else _browser_reason(tree)


def header_directives(header: str | None, token: str) -> frozenset[str]:
    """The directives of an `X-Robots-Tag` that hold for us: `noindex, otherbot: nofollow` is {noindex}.

    `header` holds one line for each time the field was sent: whom one of them names, the next does not.
    """
    return frozenset(found for line in (header or "").lower().split("\n") for found in _line_directives(line, token))


def _line_directives(line: str, token: str) -> Iterator[str]:
    agent = ""
    for part in line.split(","):
        named = _AGENT.fullmatch(part)
        if named and named["agent"] not in _DIRECTIVES_WITH_VALUE:
            agent, part = named["agent"], named["rest"]
        if agent in {"", "*", token.lower()} and part.strip():
            yield part.strip()


def _parse(html: str) -> HtmlElement | None:
    """The tree, or None where there is no element in it."""
    if not html.strip():
        return None
    try:
        # As bytes, since a text with an XML encoding declaration is refused.
        parser = lxml_html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
        return lxml_html.document_fromstring(html.encode("utf-8", "replace"), parser=parser)
    except ParserError:
        return None


def _meta_directives(tree: HtmlElement, token: str) -> frozenset[str]:
    found: set[str] = set()
    for meta in tree.iter("meta"):
        if (meta.get("name") or "").strip().lower() in {"robots", token.lower()}:
            found.update(word.strip() for word in (meta.get("content") or "").lower().split(","))
    return frozenset(found)


def _links(tree: HtmlElement, url: str) -> tuple[str, ...]:
    found = dict.fromkeys(_addresses(tree, url))
    found.pop(url, None)
    near = [link for link in found if same_site(link, url)]
    far = [link for link in found if not same_site(link, url)]
    return tuple(near + far)


def _addresses(tree: HtmlElement, url: str) -> Iterator[str]:
    base = _base(tree, url)
    read = 0
    for reference in _references(tree):
        if read == MAX_LINKS:
            return
        read += 1
        try:
            yield normalise_url(reference, base=base)
        except InvalidInput:
            continue  # mailto:, javascript:, a typing mistake: no page


def _references(tree: HtmlElement) -> Iterator[str]:
    yield from _refreshes(tree)
    for anchor in tree.iter("a", "area"):
        reference = (anchor.get("href") or "").strip()
        relations = (anchor.get("rel") or "").lower().split()
        if reference and not reference.startswith("#") and "nofollow" not in relations:
            yield reference


def _base(tree: HtmlElement, url: str) -> str:
    for element in tree.iter("base"):
        try:
            return normalise_url(element.get("href") or "", base=url)
        except InvalidInput:
            return url
    return url


def _refreshes(tree: HtmlElement) -> Iterator[str]:
    """Where each `<meta http-equiv=refresh>` leads, now or later; those that only reload are none."""
    for meta in tree.iter("meta"):
        if (meta.get("http-equiv") or "").strip().lower() == "refresh":
            match = _REFRESH.fullmatch((meta.get("content") or "").rstrip())
            if match and (target := match["url"].strip()):
                yield target


def _browser_reason(tree: HtmlElement) -> str | None:
    text_characters = _visible_characters(tree)
    if text_characters >= SHELL_TEXT_CHARACTERS:
        return None
    if any(_refreshes(tree)):
        return "it redirects by a meta refresh"
    scripts = sum(1 for script in tree.iter("script") if _is_program(script))
    if _ASKS_FOR_SCRIPTS.search(_notices(tree)) or (scripts and _ASKS_FOR_SCRIPTS.search(_visible_text(tree))):
        return "it asks for JavaScript"
    if scripts and _has_empty_root(tree):
        return "its root element is empty until a script fills it"
    if scripts:
        return f"{text_characters} characters of text beside {scripts} scripts"
    return None


def _notices(tree: HtmlElement) -> str:
    """The beginning of what the page says where no script runs."""
    outermost = (element for element in tree.iter("noscript") if next(element.iterancestors("noscript"), None) is None)
    found: list[str] = []
    left = NOTICE_CHARACTERS
    for piece in chain.from_iterable(element.itertext() for element in outermost):
        found.append(piece[:left])
        left -= len(piece)
        if left <= 0:
            break
    return " ".join(found)


def _is_program(script: HtmlElement) -> bool:
    """Data islands (JSON-LD, import maps) fill no page."""
    kind = (script.get("type") or "").strip().lower()
    return kind in {"", "module"} or "javascript" in kind


def _has_empty_root(tree: HtmlElement) -> bool:
    return any(
        (element.get("id") or "").lower() in ROOT_IDS and not "".join(element.itertext()).strip()
        for element in tree.iter("div", "main", "section")
    )


def _visible_characters(tree: HtmlElement) -> int:
    """Characters of text outside scripts and the like; stops counting once there are enough."""
    count = 0
    for piece in _visible_pieces(tree):
        count += len(piece)
        if count >= SHELL_TEXT_CHARACTERS:
            break
    return count


def _visible_text(tree: HtmlElement) -> str:
    return " ".join(_visible_pieces(tree))


def _visible_pieces(tree: HtmlElement) -> Iterator[str]:
    """Text pieces in document order, without recursion: hostile pages nest deeply."""
    pending: list[HtmlElement | str] = [tree]
    while pending:
        current = pending.pop()
        if isinstance(current, str):
            if words := " ".join(current.split()):
                yield words
            continue
        if current.tag in _UNSEEN:
            continue
        for child in reversed(current):
            if child.tail:
                pending.append(child.tail)
            pending.append(child)
        if current.text:
            pending.append(current.text)
