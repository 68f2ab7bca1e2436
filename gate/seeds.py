"""Chooses the search queries, and the given URLs to crawl first; finds names and numbers for the queries.

    cve, ghsa, rfc       identifiers: `CVE-2024-3094`, `GHSA-jfh8-c2jp-5v3q`, the number of `RFC 9110`
    error                an error message: one in quotes, or `TypeError: object is not iterable`
    brand, campaign      names: as labelled (`Brand: Acme Cola`), or by their position in a sentence
    region               a country or region of the profile's list

Of these entities: the same texts give the same ones. The question has precedence over the session, and later messages
over earlier ones. Only messages of users and the system prompt are read, as a tool's output may be an untrusted page.
Entities are sent to the search provider.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from sluice.contracts.gate import Message, SearchAim, Veto
from sluice.contracts.ingest import Vertical
from sluice.contracts.plan import Plan
from sluice.gate.probe import STOP_WORDS
from sluice.gate.profile import PLACEHOLDER, SearchQueries, VerticalQuery

MAX_SEARCH_CHARACTERS = 400
"""The shortest limit among the search providers' interfaces."""
MAX_URL_CHARACTERS = 4_096
SHOWN_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class SearchSeed:
    """One query, with its part of the web and its filters (as in `SearchDirected`)."""

    query: str
    vertical: Vertical = "web"
    filters: Mapping[str, str] = field(default_factory=dict)

    @property
    def aim(self) -> SearchAim:
        """Return the aim that a decision records beside the query."""
        return SearchAim(vertical=self.vertical, filters=dict(self.filters))


def search_seeds(
    query: str, queries: SearchQueries, *, time_sensitive: bool, year: int, session: Sequence[Message] = ()
) -> tuple[SearchSeed, ...]:
    """Return the profile's queries for parts of the web, the question itself, then the profile's reformulations of it:
    each once, at most `max_queries`, and the question always among them. A template is left out if the question has all
    its words already, or if a placeholder has no entity."""
    question = _shortened(query)
    specific = _specific(query, question, queries, session, time_sensitive=time_sensitive, year=year)
    templates = (*(queries.fresh_templates if time_sensitive else ()), *queries.templates)
    filled = [_filled(template, question, year) for template in templates if _adds(template, question, year)]
    plain = [SearchSeed(text) for text in dict.fromkeys([question, *filled])]
    chosen = (*specific[: queries.max_queries - 1], *plain)[: queries.max_queries]
    return tuple(_within(queries.sites, seed) for seed in chosen)


def list_aims(seeds: Sequence[SearchSeed]) -> tuple[SearchAim, ...]:
    """Return `GateDecided.search_aims`: one for each seed; empty if all of them search the whole web."""
    aims = tuple(seed.aim for seed in seeds)
    return () if all(aim == SearchAim() for aim in aims) else aims


def crawl_seeds(urls: Sequence[str], plan: Plan) -> tuple[tuple[str, ...], tuple[Veto, ...]]:
    """Return the given URLs that can be crawled, each once, and a veto for each of the others."""
    problems = {url: _problem(url) for url in urls}
    usable = tuple(url for url, problem in problems.items() if problem is None)
    return usable, tuple(_refused(url, problem, plan) for url, problem in problems.items() if problem is not None)


def _specific(
    query: str, question: str, queries: SearchQueries, session: Sequence[Message], *, time_sensitive: bool, year: int
) -> list[SearchSeed]:
    """Return the profile's queries for parts of the web that apply here, each once."""
    if not queries.verticals:
        return []
    entities = {**extract_entities(query, session, queries.regions), "query": question, "year": str(year)}
    applying = (asked for asked in queries.verticals if _applies(asked, entities, time_sensitive))
    found: list[SearchSeed] = []
    for seed in (_seed(asked, entities, time_sensitive=time_sensitive) for asked in applying):
        if seed not in found:
            found.append(seed)
    return found


def _within(sites: Sequence[str], seed: SearchSeed) -> SearchSeed:
    """Restrict the seed to `sites`, if there are any and it has no sites of its own."""
    if not sites or "site" in seed.filters:
        return seed
    return replace(seed, filters={**seed.filters, "site": ",".join(sites)})


def _applies(asked: VerticalQuery, entities: Mapping[str, str], time_sensitive: bool) -> bool:
    text = entities["query"].casefold()
    named = any(re.search(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", text) for word in asked.words)
    return (
        set(PLACEHOLDER.findall(asked.template)) <= entities.keys()
        and (named or not asked.words)
        and (time_sensitive or not asked.only_fresh)
    )


def _seed(asked: VerticalQuery, entities: Mapping[str, str], *, time_sensitive: bool) -> SearchSeed:
    text = PLACEHOLDER.sub(lambda placeholder: entities[placeholder[1]], asked.template)
    filters = {"site": ",".join(asked.sites)} if asked.sites else {}
    if asked.freshness and time_sensitive:
        filters["freshness"] = asked.freshness
    return SearchSeed(_shortened(text), asked.vertical, filters)


def _shortened(query: str) -> str:
    text = " ".join(query.split())
    if len(text) <= MAX_SEARCH_CHARACTERS:
        return text
    cut = text[: MAX_SEARCH_CHARACTERS + 1]
    return cut[: cut.rfind(" ")] if " " in cut else cut[:MAX_SEARCH_CHARACTERS]


def _filled(template: str, question: str, year: int) -> str:
    return template.replace("{year}", str(year)).replace("{query}", question)


def _adds(template: str, question: str, year: int) -> bool:
    added = _filled(template, "", year).casefold().split()
    return not set(added) <= set(question.casefold().split())


def _problem(url: str) -> str | None:
    """Return why `url` cannot be a seed, or None. The egress guard decides whether its host may be reached."""
    if len(url) > MAX_URL_CHARACTERS or not url.isprintable() or " " in url:
        return "is too long or holds a character that no URL may"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in ("http", "https"):
        return "is not http or https"
    if not parts.hostname or port == 0:
        return "names no host that could be reached"
    return "carries a user name or password" if parts.username is not None else None


def _refused(url: str, problem: str, plan: Plan) -> Veto:
    shown = url if len(url) <= SHOWN_CHARACTERS else url[:SHOWN_CHARACTERS] + "…"
    why = f"the seed {shown!r} {problem}"
    lift = "an http or https URL without credentials in seeds"
    return Veto(name="seed_refused", lowered_from=plan, lowered_to=plan, why=why, lifted_by=lift)


MAX_ENTITY_CHARACTERS = 120
MAX_MESSAGES = 8
MAX_BRANDS = 5
MAX_MESSAGE_CHARACTERS = 4_000
"""Characters read of each message: a conversation names its subject early and often."""

_NAME = r"[A-Z][\w&.+-]{0,30}(?: (?:of |& |de )?[A-Z0-9][\w&.+-]{0,30}){0,4}"
_CVE = re.compile(r"\bCVE-\d{4}-\d{4,19}\b", re.IGNORECASE | re.ASCII)
_GHSA = re.compile(r"\bGHSA(?:-[23456789cfghjmpqrvwx]{4}){3}\b", re.IGNORECASE)
_RFC = re.compile(r"\bRFC[ -]?(\d{1,5})\b", re.IGNORECASE | re.ASCII)
_QUOTED = re.compile(r"""\"([^"\n]{1,300})\"|“([^”\n]{1,300})”|`([^`\n]{1,300})`""")
_RAISED = re.compile(r"\b[A-Za-z_][\w.]{0,60}(?:Error|Exception|Warning)\b(?:: ?[^\n\"“”`?]{3,200})?")
_POSSESSIVE = re.compile(rf"\b({_NAME})['’]s\b")
_INSIDE = re.compile(rf"(?<=[a-z0-9,;:] )({_NAME})\b")
_CAMPAIGN = re.compile(rf"\bcampaign(?: called| named| titled)? [\"“]([^\"“”\n]{{2,80}})[\"”]|\b({_NAME}) campaign\b")
_LABELS = {
    "brand": re.compile(r"^\W{0,4}(?:brand|client|company)\s{0,3}[:=]\s{0,3}([^\n,;|]{1,80})", re.I | re.M),
    "campaign": re.compile(r"^\W{0,4}campaign\s{0,3}[:=]\s{0,3}([^\n,;|]{1,80})", re.I | re.M),
    "region": re.compile(r"^\W{0,4}(?:region|market|country)\s{0,3}[:=]\s{0,3}([^\n,;|]{1,80})", re.I | re.M),
}
_CALENDAR = """
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december christmas easter q1 q2 q3 q4 h1 h2 here
"""
"""Capitalised words that are not brands."""
_ARTICLES = "a an the this that these our their its his her new"


def extract_entities(query: str, session: Sequence[Message], regions: Sequence[str]) -> dict[str, str]:
    """Extract the entities that the texts name, keyed by `ENTITY_NAMES`. `regions` are the known regions."""
    texts = (query, *_own_texts(session))
    region = _labelled("region", texts) or _first(texts, lambda text: _region(text, regions))
    known = frozenset(name.casefold() for name in (*regions, region or ""))
    campaign = _labelled("campaign", texts) or _first(texts, _campaign)
    brand = _labelled("brand", texts) or _first(texts, lambda text: _brand(text, known, campaign))
    found = {
        "cve": _first(texts, lambda text: _matched(_CVE, text)),
        "ghsa": _first(texts, lambda text: _matched(_GHSA, text)),
        "rfc": _first(texts, lambda text: _matched(_RFC, text)),
        "error": _error(query),
        "brand": brand,
        "campaign": campaign,
        "region": region,
    }
    filled = {name: _clean(value) for name, value in found.items() if value}
    return {name: value for name, value in filled.items() if value}


def extract_brands(
    query: str, session: Sequence[Message], regions: Sequence[str], known: Sequence[str]
) -> tuple[str, ...]:
    """Extract the brands that the question names, in its order: those of `known`, and names found by position. If the
    question names none, return the brand of the session."""
    campaign = _campaign(query)
    elsewhere = query.replace(campaign, " ") if campaign else query
    none = frozenset(name.casefold() for name in regions)
    named = {match[1]: match.start(1) for pattern in (_INSIDE, _POSSESSIVE) for match in pattern.finditer(elsewhere)}
    named = {name: at for name, at in named.items() if name.casefold() not in none and not _is_plain(name.split()[0])}
    named |= {name: at for name in known if (at := _place(name, query)) >= 0}
    own = sorted(named, key=lambda name: named[name])
    brands = [name for name in own if not any(name != other and name in other.split() for other in own)]
    fallback = extract_entities(query, session, regions).get("brand")
    return tuple(filter(None, map(_clean, brands or ([fallback] if fallback else []))))[:MAX_BRANDS]


def _own_texts(session: Sequence[Message]) -> list[str]:
    """Return the beginnings of the latest messages of the user, then of the system prompt."""
    latest = {
        role: [message.content[:MAX_MESSAGE_CHARACTERS] for message in reversed(session) if message.role == role]
        for role in ("user", "system")
    }
    return [*latest["user"][:MAX_MESSAGES], *latest["system"][:MAX_MESSAGES]]


def _first(texts: Iterable[str], read: Callable[[str], str | None]) -> str | None:
    return next((value for text in texts if (value := read(text))), None)


def _matched(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return (match[match.lastindex or 0]).upper() if match else None


def _labelled(name: str, texts: Iterable[str]) -> str | None:
    return _first(texts, lambda text: match[1] if (match := _LABELS[name].search(text)) else None)


def _region(text: str, regions: Sequence[str]) -> str | None:
    """Return the name that occurs first in the text; among names at the same place the longest."""
    found = [(_place(name, text), -len(name), name) for name in regions if _place(name, text) >= 0]
    return min(found)[2] if found else None


def _place(name: str, text: str) -> int:
    if name not in text:  # most are not, and this is much the faster question
        return -1
    match = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
    return match.start() if match else -1


def _campaign(text: str) -> str | None:
    match = _CAMPAIGN.search(text)
    if match is None or match[1]:
        return match[1] if match else None
    words = match[2].split()
    words = words[1:] if words[0].casefold() in _ARTICLES.split() else words
    return None if not words or (len(words) == 1 and _is_plain(words[0])) else " ".join(words)


def _brand(text: str, known: frozenset[str], campaign: str | None) -> str | None:
    """Return the owner in `Acme's`, else the first name inside a sentence that is no region, day, month or campaign."""
    elsewhere = text.replace(campaign, " ") if campaign else text
    names = (match[1] for pattern in (_POSSESSIVE, _INSIDE) for match in pattern.finditer(elsewhere))
    return next((name for name in names if name.casefold() not in known and not _is_plain(name.split()[0])), None)


def _is_plain(word: str) -> bool:
    return word.casefold() in STOP_WORDS or word.casefold() in _CALENDAR.split()


def _error(query: str) -> str | None:
    """Return a quoted text of three words or more, or one that names an error; else an exception with its message."""
    quoted = [match[match.lastindex or 0] for match in _QUOTED.finditer(query)]
    told = next((text for text in quoted if len(text.split()) >= 3 or _RAISED.search(text)), None)
    if told:
        return told
    match = _RAISED.search(query)
    return match[0] if match else None


def _clean(value: str) -> str:
    """Return one line of printable characters, cut at a word."""
    line = " ".join("".join(char if char.isprintable() else " " for char in value).split()).strip(" .\"'“”`*_-")
    if len(line) <= MAX_ENTITY_CHARACTERS:
        return line
    end = line.rfind(" ", 0, MAX_ENTITY_CHARACTERS)
    return line[: end if end >= 0 else MAX_ENTITY_CHARACTERS]
