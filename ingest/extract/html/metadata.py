"""Reads a page's metadata: title, language, date, author, site, licence, canonical address, data.

Sources in order of care taken by publishers: JSON-LD, meta elements, visible markup. A fact that does
not parse is left out, never guessed. No fact holds an invisible character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import ada_url

from sluice.ingest.extract.html.nodes import Nodes, readable
from sluice.ingest.moments import read_moment
from sluice.text.hidden import visible

MOST_JSON_LD_BYTES = 65_536
"""Most bytes of linked data that are kept: an article's has some 3 KB."""

_MOST_LD_CHARS = 200_000
_MOST_LD_SCRIPTS = 50
_TEXT_CHARS = 500
_EARLIEST_YEAR = 1990
_LANGUAGE = re.compile(r"[A-Za-z]{2}(?![A-Za-z])")
_DATE_NAMES = (
    *("article:published_time", "datepublished", "date", "dc.date", "dcterms.date", "dc.date.issued"),
    *("dcterms.created", "citation_publication_date", "parsely-pub-date", "sailthru.date", "pubdate", "publishdate"),
)
_AUTHOR_NAMES = ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author", "parsely-author")
_LANGUAGE_NAMES = ("content-language", "language", "lang", "dc.language", "dcterms.language", "og:locale")
_LICENCE_NAMES = ("dcterms.license", "dc.license", "license", "dcterms.rights", "dc.rights", "rights")
_COMMONS = re.compile(r"https?://(?:www\.)?creativecommons\.org/(?:licenses|publicdomain)/", re.IGNORECASE)
_NO_RELATIONS: frozenset[str] = frozenset()
_READ = frozenset(("html", "base", "title", "h1", "meta", "link", "script", "time", "a", "area"))


class PageFacts:
    """Reads the facts of one page. `url` is where it was fetched, for resolving addresses."""

    def __init__(self, nodes: Nodes, url: str | None) -> None:
        self._nodes = nodes
        self._places: dict[str, list[int]] = {tag: [] for tag in _READ}
        for place, tag in enumerate(nodes.tags):
            if tag in _READ:
                self._places[tag].append(place)
        self._title = next((nodes.text(place) for place in self._places["title"]), None)
        self._meta = self._read_meta()
        self._linked_data = tuple(self._read_linked_data())
        self._items = tuple(_items(self._linked_data))
        self._resolved: dict[str, str | None] = {}
        base = next((address for place in self._places["base"] if (address := self._get(place, "href"))), None)
        self._base = (resolve(base, url) or url) if base else url

    def title(self) -> str | None:
        """Return the title, with the site's name if the page appends it."""
        heading = next((text for place in self._places["h1"][:10] if (text := self._nodes.text(place))), None)
        return _first((self._linked("headline"), self._meta.get("og:title"), self._title, heading))

    def language(self) -> str | None:
        """Return the declared language, as two letters."""
        of_page = [self._get(place, name) for place in self._places["html"][:1] for name in ("lang", "xml:lang")]
        for declared in (*of_page, *(self._meta.get(name) for name in _LANGUAGE_NAMES)):
            found = _LANGUAGE.match(declared.strip()) if declared else None
            if found:
                return found[0].lower()
        return None

    def published_at(self) -> datetime | None:
        """Return the declared date of publication."""
        candidates = (self._linked("datePublished"), *(self._meta.get(name) for name in _DATE_NAMES), self._time())
        return next((moment for moment in map(parse_moment, candidates) if moment), None)

    def author(self) -> str | None:
        """Return the named author; an address in place of a name is skipped."""
        candidates = (_author(self._linked("author")), *(self._meta.get(name) for name in _AUTHOR_NAMES))
        return next((name for name in map(_text, candidates) if name and "://" not in name), None)

    def site_name(self) -> str | None:
        """Return the site's own name."""
        return _first(
            (self._meta.get("og:site_name"), _name(self._linked("publisher")), self._meta.get("application-name"))
        )

    def canonical_url(self) -> str | None:
        """Return the address that the page prefers for itself."""
        for place in self._places["link"]:
            if "canonical" in self._relations(place):
                return self.resolve(self._get(place, "href"))
        return self.resolve(self._meta.get("og:url"))

    def licence(self) -> str | None:
        """Return the licence: an address (rel=license, JSON-LD, a Creative Commons link), else the page's words."""
        for place in (*self._places["link"], *self._places["a"]):
            if "license" in self._relations(place) and (address := self.resolve(self._get(place, "href"))):
                return address
        declared = self._linked("license")
        if isinstance(declared, dict):
            declared = declared.get("@id") or declared.get("url") or declared.get("name")
        commons = (address for place in self._places["a"] if _COMMONS.match(address := self._get(place, "href")))
        return _first((declared, next(commons, None), *(self._meta.get(name) for name in _LICENCE_NAMES)))

    def json_ld(self) -> str | None:
        """Return the linked data as one JSON array; items beyond `MOST_JSON_LD_BYTES` are left out."""
        kept: list[str] = []
        room = MOST_JSON_LD_BYTES - 2
        for item in self._linked_data:
            try:
                written = visible(json.dumps(item, ensure_ascii=False, separators=(",", ":")))
            except RecursionError:
                continue
            size = len(written.encode("utf-8", "replace")) + 1
            if size <= room:
                kept.append(written)
                room -= size
        return f"[{','.join(kept)}]" if kept else None

    def resolve(self, address: str | None) -> str | None:
        """Return `address` on this page as an absolute http(s) URL without fragment, or None."""
        if not address:
            return None
        if address not in self._resolved:
            self._resolved[address] = resolve(address, self._base)
        return self._resolved[address]

    def _get(self, place: int, name: str) -> str:
        return self._nodes.attributes[place].get(name) or ""

    def _relations(self, place: int) -> frozenset[str]:
        written = self._nodes.attributes[place].get("rel")
        return frozenset(written.lower().split()) if written else _NO_RELATIONS

    def _time(self) -> str | None:
        """Return the first `<time>` that is marked as the publication's, or is in an article."""
        for place in self._places["time"]:
            attributes = self._nodes.attributes[place]
            if "pubdate" in attributes or "datePublished" in attributes.get("itemprop", ""):
                return attributes.get("datetime")
        articles = self._nodes.tags.index("article") if "article" in self._nodes.tags else len(self._nodes)
        inside = (place for place in self._places["time"] if articles < place < self._nodes.ends[articles])
        return next((self._get(place, "datetime") for place in inside), None)

    def _read_meta(self) -> dict[str, str]:
        meta: dict[str, str] = {}
        for place in self._places["meta"]:
            get = self._nodes.attributes[place].get
            name = get("property") or get("name") or get("itemprop") or get("http-equiv")
            content = get("content")
            if name and content is not None:
                meta.setdefault(name.lower(), content)
        return meta

    def _read_linked_data(self) -> Iterator[Any]:
        scripts = (place for place in self._places["script"] if self._get(place, "type") == "application/ld+json")
        for _, place in zip(range(_MOST_LD_SCRIPTS), scripts, strict=False):
            source = readable("".join(self._nodes.texts[place : self._nodes.ends[place]]))
            try:
                data = json.loads(source[:_MOST_LD_CHARS], strict=False)
            except (ValueError, RecursionError):
                continue
            yield from data if isinstance(data, list) else [data]

    def _linked(self, name: str) -> Any:
        return next((item[name] for item in self._items if item.get(name)), None)


def resolve(address: str | None, base: str | None) -> str | None:
    """Return `address` as an absolute http(s) URL without fragment, or None."""
    if not address or address.startswith("#"):
        return None
    try:
        url = ada_url.URL(address.strip(), base) if base else ada_url.URL(address.strip())
    except ValueError:
        return None
    url.hash = ""
    return str(url.href) if url.protocol in ("http:", "https:") else None


def parse_moment(value: object) -> datetime | None:
    """Parse a date to UTC; None if it is not one, or implausible."""
    moment = read_moment(value)
    return moment if moment is not None and moment.year >= _EARLIEST_YEAR else None


def _items(linked_data: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the top-level objects and those of their graphs."""
    for item in linked_data:
        if isinstance(item, dict):
            yield item
            graph = item.get("@graph")
            yield from (part for part in graph if isinstance(part, dict)) if isinstance(graph, list) else ()


def _author(value: Any) -> Any:
    if isinstance(value, list):
        names = [name for name in map(_name, value[:5]) if isinstance(name, str)]
        return ", ".join(names)
    return _name(value)


def _name(value: Any) -> Any:
    return value.get("name") if isinstance(value, dict) else value


def _first(candidates: Iterable[object]) -> str | None:
    return next((text for text in map(_text, candidates) if text), None)


def _text(value: object) -> str | None:
    return (" ".join(visible(value).split())[:_TEXT_CHARS] or None) if isinstance(value, str) else None
