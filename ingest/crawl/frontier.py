"""Orders a page's links: those of its own site that share words with the question first; avoids traps.

The order, by these criteria in turn: the same site before others; pages that callers call bad last; more of the
question's words in a link's text or path; a higher priority, then a later date, in a sitemap; fewer path segments
before more; else the order of the page. Promises: no link is invented and none stands twice; traps are reported
separately, with the reason; hosts of other sites get a few links each, whatever the page repeats.

`why_trap` recognises endless addresses (calendars, counters, sessions, sortings, paths that grow) by their
form, and by the addresses that led there if a form alone proves nothing: a calendar's first page may be worth
reading, the page that it turns to is not. It is tuned for few false alarms; what it misses is bounded by the
allowances of a run, which hold in any case. The bounds on depth and repetition are those of the Internet Archive's
crawler (Heritrix: `TooManyPathSegments`, 20, and `PathologicalPath`, more than two equal segments in a row).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote, unquote_plus, urlsplit

from sluice.contracts.ingest import CrawlScope, PageLink
from sluice.contracts.learning.passages import DOUBTED
from sluice.ingest.crawl.sitemap import SitemapUrl
from sluice.ingest.url import host_of, site_of
from sluice.text.pattern_file import PatternFile
from sluice.text.words import singular

MOST_PER_OTHER_HOST = 3
"""Most links to one host of another site that are followed from one page."""
USUAL_PRIORITY = 0.5
"""Priority of a page whose sitemap names none, and of one in no sitemap (sitemaps.org, protocol)."""

_TRAPS = PatternFile(Path(__file__).with_name("traps.toml"))
_WORD = re.compile(r"\w+")
_SPACELESS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
"""Scripts without spaces between words: pairs of characters stand for words there."""
_SHORTEST_WORD = 2


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A link that is not followed, and the name of the trap that it looks like: see `ingest.crawl.frontier`."""

    url: str
    trap: str


@dataclass(frozen=True, slots=True)
class Frontier:
    """Addresses to follow from a page, the best first, and the links left out."""

    urls: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def ranked(
    links: Iterable[PageLink],
    *,
    page_url: str,
    query: str | None,
    known: Mapping[str, SitemapUrl] = {},
    came_by: tuple[str, ...] = (),
    doubts: Mapping[str, float] = {},
) -> Frontier:
    """Rank the links of the page at `page_url` in the order in which to follow them.

    `query` is the search query, if there is one. `known` holds the sitemap entries of the site, by canonical address.
    `came_by` are the addresses that led to the page, the first one first. `doubts` are the shares, by URL and by host,
    that what callers say against pages takes from their priority; much doubted pages come after the others of a site.
    """
    texts: dict[str, str] = {}
    for link in links:
        if link.url != page_url and not texts.get(link.url):
            texts[link.url] = link.text
    way, site, asked = (*came_by, page_url), site_of(page_url), _words(query or "")
    traps = {url: trap for url in texts if (trap := why_trap(url, way))}
    worth = {
        url: _worth(url, text, site, asked, known.get(url), doubts) for url, text in texts.items() if url not in traps
    }
    order = sorted(worth, key=worth.__getitem__)
    left_out = tuple(LeftOut(url, trap) for url, trap in traps.items())
    return Frontier(tuple(_few_of_others(order, site)), left_out)


def is_in_scope(scope: CrawlScope, url: str, *, is_start: bool = False) -> bool:
    """Return whether the crawl of a site may take in the page at `url`; the page that it starts at needs no pattern.

    Patterns are compared in time in proportion to their length times the address's: `fnmatch` never goes back.
    """
    if scope.reach != "any":
        compared = site_of if scope.reach == "site" else _host_and_port
        if compared(url) != compared(scope.start):
            return False
    if is_start:
        return True
    path = unquote(urlsplit(url).path)

    def is_one_of(patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(url if one.startswith("http") else path, one) for one in patterns)

    return not is_one_of(scope.exclude) and (not scope.include or is_one_of(scope.include))


def _host_and_port(url: str) -> str:
    return urlsplit(url).netloc


def _worth(
    url: str, text: str, site: str, asked: frozenset[str], told: SitemapUrl | None, doubts: Mapping[str, float]
) -> tuple[bool, bool, int, float, float, int]:
    """Return the sort key of a link; lower comes first."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    hits = len(asked & _words(f"{text} {path}")) if asked else 0
    priority = told.priority if told and told.priority is not None else USUAL_PRIORITY
    changed = told.last_modified.timestamp() if told and told.last_modified else 0.0
    doubt = doubts.get(url, 0.0)
    priority *= 1.0 - max(doubt, doubts.get(host_of(url), 0.0) if doubts else 0.0)
    return site_of(url) != site, doubt >= DOUBTED, -hits, -priority, -changed, path.strip("/").count("/")


def _few_of_others(order: Iterable[str], site: str) -> Iterable[str]:
    taken: Counter[str] = Counter()
    for url in order:
        if site_of(url) != site:
            host = host_of(url)
            taken[host] += 1
            if taken[host] > MOST_PER_OTHER_HOST:
                continue
        yield url


def _words(text: str) -> frozenset[str]:
    """Return the words by which a link and a query are compared: lower case, plurals as singulars."""
    found: set[str] = set()
    for word in _WORD.findall(text.casefold().replace("_", " ")):
        if _SPACELESS.search(word):
            found.update(word[at : at + 2] for at in range(len(word) - 1))
        elif len(word) >= _SHORTEST_WORD and word not in _TRAPS.words("empty_words"):
            found.add(singular(word))
    return frozenset(found)


MAX_SEGMENTS = 20
"""Most segments of a path; source trees of Java reach 17."""
MAX_IN_A_ROW = 2
"""Most repetitions of one segment, or the same few, in a row."""
MAX_CYCLE = 4
"""Longest repeating group of segments: links relative to the wrong folder add two or three at a time."""
MAX_ALIKE = 4
"""Most occurrences of one segment, numbers excepted, anywhere in a path."""
MAX_PARAMETERS = 12
"""Most parameters of a query; search forms have ten."""
MAX_SAME_PARAMETER = 6
"""Most occurrences of one name in a query: filters of shops repeat theirs."""
MAX_FACETS = 3
"""Most filters at once: each divides one list, and their combinations multiply."""
MAX_IN_A_CHAIN = 2
"""Most addresses of one way that differ only by random characters: a page and the next. A third is endless."""
EARLIEST_YEAR, LATEST_YEAR = 1900, 2100
"""Only machines turn calendars beyond these years."""

_YEAR = re.compile(r"(?<!\d)(\d{4})(?!\d)")
_SEPARATORS = re.compile(r"([/?&=;])")
_DIGITS = re.compile(r"\d+")


def why_trap(url: str, came_by: tuple[str, ...] = ()) -> str | None:
    """Return the name of the trap that the canonical address `url` looks like, or None.

    `depth`: the path is too long. `repetition`: parts of the path recur. `session`: made for one visitor.
    `parameters`: the query is too long to name a page. `permutation`: a list in another order or selection.
    `calendar`: another page of a calendar that led here. `chain`: a third address after two that differ from it only
    by random characters. `came_by` are the addresses that led here, the first one first.
    """
    parts = urlsplit(url)
    segments = [segment for segment in parts.path.split("/") if segment]
    pairs = list(_pairs(parts.query))
    if len(segments) > MAX_SEGMENTS:
        return "depth"
    if _repeats(segments):
        return "repetition"
    if any(_TRAPS["session_segment"].fullmatch(segment) for segment in segments) or any(
        _is_session(*pair) for pair in pairs
    ):
        return "session"
    if _is_explosion(pairs):
        return "parameters"
    if _is_permutation(parts.query, pairs, parts.path, came_by):
        return "permutation"
    if _is_calendar(url, parts.path, pairs, came_by):
        return "calendar"
    return "chain" if _is_chain(url, came_by) else None


def _pairs(query: str) -> Iterator[tuple[str, str]]:
    for pair in re.split("[&;]", query) if query else ():
        name, _, value = pair.partition("=")
        yield unquote_plus(name).lower(), unquote_plus(value)


def _repeats(segments: list[str]) -> bool:
    words = Counter(segment for segment in segments if not segment.isdecimal())
    if words and max(words.values()) > MAX_ALIKE:
        return True
    return any(_cycles(segments, length) for length in range(1, MAX_CYCLE + 1))


def _cycles(segments: list[str], length: int) -> bool:
    """Return whether `length` segments repeat more than `MAX_IN_A_ROW` times in a row; numbers alone may."""
    alike = 0
    for at in range(length, len(segments)):
        alike = alike + 1 if segments[at] == segments[at - length] else 0
        if alike >= length * MAX_IN_A_ROW and not all(one.isdecimal() for one in segments[at - length : at]):
            return True
    return False


def _is_session(name: str, value: str) -> bool:
    return _TRAPS["random"].fullmatch(value) is not None and _TRAPS["session_name"].fullmatch(name) is not None


def _is_explosion(pairs: list[tuple[str, str]]) -> bool:
    if len(pairs) > MAX_PARAMETERS:
        return True
    names = Counter(name for name, _ in pairs)
    if names and max(names.values()) > MAX_SAME_PARAMETER:
        return True
    return any(name in _TRAPS.words("return_names") and _leads_back(value) for name, value in pairs)


def _leads_back(value: str) -> bool:
    """Return whether a return address contains another one: log-in pages that link to themselves grow so."""
    return any(name in _TRAPS.words("return_names") for name, _ in _pairs(urlsplit(value).query))


def _is_permutation(query: str, pairs: list[tuple[str, str]], path: str, came_by: tuple[str, ...]) -> bool:
    if _TRAPS["listing"].fullmatch(query):
        return True
    sortings = sum(1 for name, _ in pairs if _TRAPS["sorting"].fullmatch(name))
    facets = sum(1 for name, _ in pairs if name in _TRAPS.words("facet_names") or _TRAPS["facet"].fullmatch(name))
    if facets > MAX_FACETS:
        return True
    led_here = bool(came_by) and urlsplit(came_by[-1]).path == path
    return led_here and (sortings > 0 or facets > 1)


def _is_calendar(url: str, path: str, pairs: list[tuple[str, str]], came_by: tuple[str, ...]) -> bool:
    """Return whether the page belongs to a calendar and is beyond all dates or reached from another of its pages."""
    dates = [value for name, value in pairs if _TRAPS["date_name"].fullmatch(name) and _DIGITS.search(value)]
    years = [year for value in dates for year in _YEAR.findall(value)]
    if _TRAPS["calendar_word"].search(path):
        in_path = [date[1] or date[2] for date in _TRAPS["date_in_path"].finditer(path)]
        years += in_path
        dates += in_path
    if not dates:
        return False
    if any(not EARLIEST_YEAR <= int(year) <= LATEST_YEAR for year in years):
        return True
    shape = _shape(url)
    return any(_shape(address) == shape for address in came_by)


def _is_chain(url: str, came_by: tuple[str, ...]) -> bool:
    """Return whether the way leads from page to page by ever-new random parts, like unnamed sessions."""
    if len(came_by) < MAX_IN_A_CHAIN:
        return False
    form = _without_random(url)
    alike = {address for address in came_by if _without_random(address) == form}
    return form != url and len(alike - {url}) >= MAX_IN_A_CHAIN


def _without_random(url: str) -> str:
    """Return the address with its random path segments and query values replaced by `*`."""
    return "".join("*" if _TRAPS["random"].fullmatch(part) else part for part in _SEPARATORS.split(url))


def _shape(url: str) -> str:
    """Return the address with numbers and months replaced by 0, so that all pages of a calendar are equal."""
    return _DIGITS.sub("0", _TRAPS["months"].sub("0", url))
