"""What an HTML page says of itself: title, language, date, author, canonical address, links.

Sources in order of care taken by publishers: JSON-LD, meta elements, visible markup. A fact that does
not parse is left out, never guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import ada_url
from lxml.html import HtmlElement

from ingest.extracted import Link
from ingest.invisible import visible

_MOST_LINKS = 2_000
_MOST_LD_CHARS = 200_000
_TITLE_CHARS = 500
_EARLIEST_YEAR = 1990
_LANGUAGE = re.compile(r"[A-Za-z]{2}(?![A-Za-z])")
_DATE_NAMES = ("article:published_time", "datepublished", "date", "dc.date", "dcterms.date", "pubdate", "publishdate")
_AUTHOR_NAMES = ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author")


class PageFacts:
    """Reads the facts of one parsed page. `url` is where it was fetched, for resolving addresses."""

    def __init__(self, root: HtmlElement, url: str | None) -> None:
        self._root = root
        self._meta = _meta(root)
        self._linked_data = tuple(_linked_data(root))
        base = root.find(".//base[@href]")
        self._base = resolve(base.get("href"), url) or url if base is not None else url

    def title(self) -> str | None:
        """The title; the name of the site, where the page repeats it, is kept."""
        element = self._root.find(".//head/title")
        heading = self._root.find(".//h1")
        return (
            _text(self._linked("headline"))
            or _text(self._meta.get("og:title"))
            or (_text(element.text_content()) if element is not None else None)
            or (_text(heading.text_content()) if heading is not None else None)
        )

    def language(self) -> str | None:
        """The declared language, as two letters."""
        html = self._root if self._root.tag == "html" else next(self._root.iterancestors("html"), self._root)
        for declared in (html.get("lang"), html.get("xml:lang"), self._meta.get("content-language")):
            found = _LANGUAGE.match(declared.strip()) if declared else None
            if found:
                return found[0].lower()
        return None

    def published_at(self) -> datetime | None:
        """When the page says it was published."""
        times = self._root.xpath(
            ".//time[@pubdate or @itemprop='datePublished']/@datetime | .//article//time/@datetime"
        )
        candidates = (self._linked("datePublished"), *(self._meta.get(name) for name in _DATE_NAMES), *times[:1])
        return next((moment for moment in map(parse_moment, candidates) if moment), None)

    def author(self) -> str | None:
        """The named author; an address in place of a name is passed over."""
        candidates = (_author(self._linked("author")), *(self._meta.get(name) for name in _AUTHOR_NAMES))
        return next((name for name in map(_text, candidates) if name and "://" not in name), None)

    def canonical_url(self) -> str | None:
        """The address that the page prefers for itself."""
        for element in self._root.iterfind(".//link[@rel][@href]"):
            if "canonical" in element.get("rel").lower().split():
                return resolve(element.get("href"), self._base)
        return resolve(self._meta.get("og:url"), self._base)

    def links(self, *parts: HtmlElement) -> tuple[Link, ...]:
        """The links of `parts`, in their order, each address once."""
        refused = "nofollow" in self._meta.get("robots", "").lower()
        found: dict[str, Link] = {}
        for part in parts:
            for anchor in part.iterfind(".//a[@href]"):
                url = resolve(anchor.get("href"), self._base)
                if url is None or url in found:
                    continue
                if len(found) == _MOST_LINKS:
                    return tuple(found.values())
                relation = set((anchor.get("rel") or "").lower().split())
                nofollow = refused or bool(relation & {"nofollow", "ugc", "sponsored"})
                found[url] = Link(url, " ".join(visible(anchor.text_content()).split())[:200], nofollow)
        return tuple(found.values())

    def _linked(self, name: str) -> Any:
        return next((item[name] for item in self._linked_data if item.get(name)), None)


def resolve(address: str | None, base: str | None) -> str | None:
    """`address` as an absolute http(s) URL without fragment, or None."""
    if not address or address.startswith("#"):
        return None
    try:
        url = ada_url.URL(address.strip(), base) if base else ada_url.URL(address.strip())
    except ValueError:
        return None
    url.hash = ""
    return str(url.href) if url.protocol in ("http:", "https:") else None


def parse_moment(value: object) -> datetime | None:
    """An ISO 8601 or RFC 5322 date in UTC; without a zone it is read as UTC. None if implausible."""
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip()[:64]
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(text)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            continue
        return moment if moment.year >= _EARLIEST_YEAR else None
    return None


def _meta(root: HtmlElement) -> dict[str, str]:
    meta: dict[str, str] = {}
    for element in root.iterfind(".//meta[@content]"):
        name = element.get("property") or element.get("name") or element.get("itemprop") or element.get("http-equiv")
        if name:
            meta.setdefault(name.lower(), element.get("content"))
    return meta


def _linked_data(root: HtmlElement) -> Iterator[dict[str, Any]]:
    for element in root.iterfind(".//script[@type='application/ld+json']"):
        try:
            data = json.loads((element.text or "")[:_MOST_LD_CHARS])
        except (ValueError, RecursionError):
            continue
        items = data if isinstance(data, list) else [data]
        for item in items:
            if isinstance(item, dict):
                yield item
                graph = item.get("@graph")
                yield from (part for part in graph if isinstance(part, dict)) if isinstance(graph, list) else ()


def _author(value: Any) -> Any:
    if isinstance(value, list):
        names = [name for name in map(_author, value[:5]) if isinstance(name, str)]
        return ", ".join(names)
    return value.get("name") if isinstance(value, dict) else value


def _text(value: object) -> str | None:
    return (" ".join(value.split())[:_TITLE_CHARS] or None) if isinstance(value, str) else None
