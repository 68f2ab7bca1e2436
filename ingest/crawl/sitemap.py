"""Sitemaps: a site's own list of its pages (sitemaps.org, protocol 0.9), in XML, gzip, plain text or as a feed.

Promises: only addresses of the sitemap's own site, each once and in canonical form; at most 50,000 of one file and
50 MB of it, the protocol's limits; no tree is built, no entity is replaced and nothing else is loaded, so that a file
costs time in proportion to its length and hardly any memory. A file that is not a sitemap counts as an empty one.

`SiteMaps` reads the maps of each crawled site once an hour: those that its robots.txt names, or where a whole site is
crawled and it names none, `/sitemap.xml`; as politely as its pages, and in at most half of the page's remaining time. A
map that cannot be fetched counts as empty.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from lxml.etree import LxmlError, XMLParser

from sluice.contracts.errors import InvalidInput, SluiceError
from sluice.ingest.deadline import Deadline
from sluice.ingest.http.decompress import Inflater, UnknownEncoding
from sluice.ingest.http.fetch import Fetched, Fetcher, FetchLimits
from sluice.ingest.moments import read_moment
from sluice.ingest.politeness.robots import RobotsCache
from sluice.ingest.url import normalise_url, origin_of, site_of

MAX_URLS = 50_000
"""Most entries of one file, by the protocol."""
MAX_BYTES = 52_428_800
"""Largest file once decompressed, by the protocol."""
MAX_ELEMENTS = 10 * MAX_URLS
"""Most elements of one file: an entry has four besides its address, and some list languages and pictures."""
MAX_FILES = 20
"""Most sitemaps read of one site: an index may name 50,000."""
MAX_VALUE_CHARACTERS = 4_096
"""Longest address or date; the rest is dropped."""

_CHUNK_BYTES = 65_536
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_GZIP_MAGIC = b"\x1f\x8b"
_PAGES, _CHILDREN = frozenset({"url", "item", "entry"}), "sitemap"
_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("loc", "link"), "url"),
    **dict.fromkeys(("lastmod", "pubdate", "updated", "date"), "date"),
    "published": "published",
    "priority": "priority",
}
"""Elements of an entry and their fields: those of sitemaps, of RSS and of Atom."""


@dataclass(frozen=True, slots=True)
class SitemapUrl:
    """A page as its sitemap lists it. `priority` is between 0 and 1, among the pages of the same site."""

    url: str
    last_modified: datetime | None = None
    priority: float | None = None


@dataclass(frozen=True, slots=True)
class Sitemap:
    """Contents of one file: pages, and further sitemaps, the most recently changed first."""

    urls: tuple[SitemapUrl, ...] = ()
    children: tuple[str, ...] = ()


def read_sitemap(body: bytes, url: str) -> Sitemap:
    """Read the sitemap `body`, compressed or not, found at `url`. Unreadable entries are left out.

    Raises InvalidInput if `url` is not a usable address.
    """
    entries = _Entries()
    plain = _decompressed(body).lstrip(b"\xef\xbb\xbf \t\r\n")
    is_xml = plain.startswith(b"<") or plain[:2] in _UTF_16_MARKS
    with suppress(_Over):
        (_read_xml if is_xml else _read_lines)(plain, entries)
    pages, children = _own(entries.pages, url), _own(entries.children, url)
    newest = sorted(children, key=lambda one: -one.last_modified.timestamp() if one.last_modified else 0.0)
    return Sitemap(tuple(pages), tuple(child.url for child in newest))


def gather(start: tuple[str, ...], fetch: Callable[[str], bytes | None], most_urls: int) -> tuple[SitemapUrl, ...]:
    """Return at most `most_urls` pages of the sitemaps `start` and of those that they name, in order and each once.

    `fetch` returns the body of a sitemap, or None if there is none. At most `MAX_FILES` are fetched, each once.
    """
    found: dict[str, SitemapUrl] = {}
    asked: set[str] = set()
    level = list(start)
    for _ in range(2):
        children: list[str] = []
        for address in level:
            if len(found) >= most_urls or len(asked) >= MAX_FILES:
                break
            if address in asked:
                continue
            asked.add(address)
            body = fetch(address)
            sitemap = Sitemap() if body is None else read_sitemap(body, address)
            children += sitemap.children
            for page in sitemap.urls:
                found.setdefault(page.url, page)
        level = children
    return tuple(found.values())[:most_urls]


class _Over(Exception):
    """Raised to ignore the rest of the file."""


class _Entries:
    """Parser target that collects a sitemap's entries and keeps nothing else of the file."""

    def __init__(self) -> None:
        self.pages: list[dict[str, str]] = []
        self.children: list[dict[str, str]] = []
        self._entry: dict[str, str] | None = None
        self._field: str | None = None
        self._text: list[str] = []
        self._room = 0
        self._elements_left = MAX_ELEMENTS

    def add(self, entry: dict[str, str], *, is_child: bool = False) -> None:
        """Add a page or sitemap. Raises `_Over` once `MAX_URLS` are reached."""
        (self.children if is_child else self.pages).append(entry)
        if len(self.pages) + len(self.children) >= MAX_URLS:
            raise _Over

    def doctype(self, name: str | None, public_id: str | None, system_url: str | None) -> None:
        """Reject a document type: sitemaps declare none, but error pages and attacks do."""
        raise _Over

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element."""
        self._elements_left -= 1
        if self._elements_left < 0:
            raise _Over
        name = _local(tag)
        if name in _PAGES or name == _CHILDREN:
            self._entry = {}
        elif self._entry is not None:
            self._field, self._text, self._room = _FIELDS.get(name), [], MAX_VALUE_CHARACTERS
            if name == "link" and attributes.get("rel", "alternate") == "alternate" and attributes.get("href"):
                self._entry.setdefault("url", attributes["href"][:MAX_VALUE_CHARACTERS])

    def data(self, text: str) -> None:
        """Collect text within the latest element."""
        if self._field is not None and self._room > 0:
            self._text.append(text[: self._room])
            self._room -= len(text)

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        if self._entry is None:
            return
        name = _local(tag)
        if name in _PAGES or name == _CHILDREN:
            entry, self._entry = self._entry, None
            if "url" in entry:
                self.add(entry, is_child=name == _CHILDREN)
        elif self._field is not None:
            if text := "".join(self._text).strip():
                self._entry.setdefault(self._field, text)
            self._field = None

    def close(self) -> None:
        """Handle the end of the file."""


def _local(tag: str) -> str:
    return tag.rpartition("}")[2].lower()


def _decompressed(body: bytes) -> bytes:
    if not body.startswith(_GZIP_MAGIC):
        return body[:MAX_BYTES]
    inflater = Inflater("gzip", MAX_BYTES)
    try:
        inflater.feed(body)
    except UnknownEncoding:
        return b""
    return inflater.body


def _read_xml(body: bytes, entries: _Entries) -> None:
    """Feed `body` to `entries`, as far as it can be parsed."""
    parser = XMLParser(
        target=entries, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True
    )
    try:
        for at in range(0, len(body), _CHUNK_BYTES):
            parser.feed(body[at : at + _CHUNK_BYTES])
    except LxmlError:
        return  # beyond recovery, or beyond the parser's own bounds


def _read_lines(body: bytes, entries: _Entries) -> None:
    for line in body.decode("utf-8", "replace").splitlines():
        text = line.strip()
        if text[:8].lower().startswith(("http://", "https://")):
            entries.add({"url": text[: MAX_VALUE_CHARACTERS + 1]})


def _own(entries: list[dict[str, str]], url: str) -> list[SitemapUrl]:
    """Return the entries on the site of `url`, each address once."""
    site = site_of(url)
    found: dict[str, SitemapUrl] = {}
    for entry in entries:
        try:
            address = normalise_url(entry["url"], base=url)
        except InvalidInput:
            continue
        if address not in found and site_of(address) == site:
            changed = _moment(entry.get("date") or entry.get("published"))
            found[address] = SitemapUrl(address, changed, _priority(entry.get("priority")))
    return list(found.values())


def _moment(text: str | None) -> datetime | None:
    """Read a W3C date, possibly partial, or a date of RFC 5322 as in RSS."""
    is_partial = text is not None and text[:4].isdecimal() and len(text) in (4, 7)
    return read_moment(f"{text}{'-01-01'[: 10 - len(text or '')]}" if is_partial else text)


def _priority(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0.0 <= value <= 1.0 else None


KEPT_SECONDS = 3_600.0
"""Time that a site's map is kept; a longer run may miss new entries."""
MOST_ORIGINS = 200
"""Most sites whose maps are kept at a time; one of 5,000 addresses takes a megabyte."""
REDIRECTS = 3
"""Most redirects for one map."""
MOST_URLS = 5_000
"""Most addresses read from one site's sitemaps."""


@dataclass(frozen=True, slots=True)
class _Kept:
    urls: Mapping[str, SitemapUrl]
    until: float


class SiteMaps:
    """Cache of sites' sitemap entries. Thread-safe; two threads may read one map at the same time."""

    def __init__(self, fetcher: Fetcher, robots: RobotsCache, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetcher = fetcher
        self._robots = robots
        self._clock = clock
        self._kept: OrderedDict[tuple[str, bool], _Kept] = OrderedDict()
        self._guard = threading.Lock()

    def of(
        self, url: str, *, proxy_url: str, pre_request: Callable[[str], None], deadline: Deadline, guess: bool = False
    ) -> Mapping[str, SitemapUrl]:
        """Return the pages in the maps of `url`'s site, by canonical address; `pre_request` precedes each request.
        `guess`: look for a map at its usual place where the site names none."""
        origin = origin_of(url), guess
        with self._guard:
            kept = self._kept.get(origin)
            if kept is not None and kept.until > self._clock():
                return kept.urls
        named = self._robots.sitemaps(url, deadline)
        if guess and not named:
            named = (normalise_url("/sitemap.xml", base=url),)
        urls = self._read(named, proxy_url, pre_request, deadline) if named else {}
        with self._guard:
            self._kept[origin] = _Kept(urls, self._clock() + KEPT_SECONDS)
            self._kept.move_to_end(origin)
            while len(self._kept) > MOST_ORIGINS:
                self._kept.popitem(last=False)
        return urls

    def _read(
        self, named: tuple[str, ...], proxy_url: str, pre_request: Callable[[str], None], deadline: Deadline
    ) -> Mapping[str, SitemapUrl]:
        ours = Deadline(deadline.left_seconds() / 2)

        def fetched(address: str) -> bytes | None:
            try:
                limits = FetchLimits(ours.left_seconds(), MAX_BYTES, REDIRECTS)
                answer = self._fetcher.fetch(
                    address, limits=limits, pre_request=pre_request, deadline=ours, proxy_url=proxy_url
                )
            except SluiceError:  # sitemaps are optional
                return None
            return answer.body if isinstance(answer, Fetched) and answer.status == 200 else None

        return {page.url: page for page in gather(named, fetched, MOST_URLS)}
