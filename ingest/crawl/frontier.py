"""Which of a page's links to follow first: those of its own site that speak of what was asked.

The order, one after the other: the same site before others; the more of the question's words stand in a link's text
or path, the earlier; what a sitemap calls important, then what it calls new; fewer path segments before more; else as
the page has them. Promises: nothing is invented and nothing stands twice; what leads to no end is told apart, with
why; hosts of other sites get a few links each, whatever the page repeats.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from sluice.contracts.known_pages import PageLink
from sluice.ingest.crawl.crawler_traps import why_trap
from sluice.ingest.crawl.sitemap import SitemapUrl
from sluice.ingest.url import host_of, site_of

MOST_PER_OTHER_HOST = 3
"""Links to one host of another site that are followed from one page."""
USUAL_PRIORITY = 0.5
"""Of a page whose sitemap names none, and of one in no sitemap (sitemaps.org, protocol)."""

_WORD = re.compile(r"\w+")
_SPACELESS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
"""Scripts that put no spaces between words: pairs of characters stand for words there."""
_EMPTY_WORDS = frozenset(
    {
        *("the", "and", "for", "with", "from", "that", "this", "what", "when", "where", "which", "who", "why", "how"),
        *("are", "was", "were", "can", "could", "does", "did", "has", "have", "into", "not", "you", "your", "is", "to"),
        *("of", "in", "on", "it", "do", "an", "as", "at", "be", "by", "or", "html", "htm", "php", "index"),
        *("der", "die", "das", "und", "wie", "ist", "les", "des", "une", "est", "que", "los", "las", "del", "para"),
    }
)
"""Words that stand in most questions, and parts of addresses that say nothing."""
_SHORTEST_WORD = 2


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A link that is not followed, and the name of the trap that it looks like: see `ingest.crawl.crawler_traps`."""

    url: str
    trap: str


@dataclass(frozen=True, slots=True)
class Frontier:
    """Where to go from a page: addresses in the order of their worth, and what was left out."""

    urls: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def ranked(
    links: Iterable[PageLink],
    *,
    page_url: str,
    query: str | None,
    known: Mapping[str, SitemapUrl] = {},
    came_by: tuple[str, ...] = (),
    most_per_other_host: int = MOST_PER_OTHER_HOST,
) -> Frontier:
    """The links of the page at `page_url` in the order in which to follow them.

    `query` is what was asked, where something was. `known` holds what the site's sitemaps say, by canonical address.
    `came_by` are the addresses that led to the page, the first one first.
    """
    texts: dict[str, str] = {}
    for link in links:
        if link.url != page_url and not texts.get(link.url):
            texts[link.url] = link.text
    way, site, asked = (*came_by, page_url), site_of(page_url), _words(query or "")
    traps = {url: trap for url in texts if (trap := why_trap(url, way))}
    worth = {url: _worth(url, text, site, asked, known.get(url)) for url, text in texts.items() if url not in traps}
    order = sorted(worth, key=worth.__getitem__)
    left_out = tuple(LeftOut(url, trap) for url, trap in traps.items())
    return Frontier(tuple(_few_of_others(order, site, most_per_other_host)), left_out)


def _worth(
    url: str, text: str, site: str, asked: frozenset[str], told: SitemapUrl | None
) -> tuple[bool, int, float, float, int]:
    """The lower the earlier."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    hits = len(asked & _words(f"{text} {path}")) if asked else 0
    priority = told.priority if told and told.priority is not None else USUAL_PRIORITY
    changed = told.last_modified.timestamp() if told and told.last_modified else 0.0
    return site_of(url) != site, -hits, -priority, -changed, path.strip("/").count("/")


def _few_of_others(order: Iterable[str], site: str, most: int) -> Iterable[str]:
    taken: Counter[str] = Counter()
    for url in order:
        if site_of(url) != site:
            host = host_of(url)
            taken[host] += 1
            if taken[host] > most:
                continue
        yield url


def _words(text: str) -> frozenset[str]:
    """The words of `text` by which a link and a question are compared: lower case, the plural as the singular."""
    found: set[str] = set()
    for word in _WORD.findall(text.casefold().replace("_", " ")):
        if _SPACELESS.search(word):
            found.update(word[at : at + 2] for at in range(len(word) - 1))
        elif len(word) >= _SHORTEST_WORD and word not in _EMPTY_WORDS:
            found.add(_singular(word))
    return frozenset(found)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
