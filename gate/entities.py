"""Entities of a question and its session: names and numbers for search queries.

    cve, ghsa, rfc       identifiers: `CVE-2024-3094`, `GHSA-jfh8-c2jp-5v3q`, the number of `RFC 9110`
    error                an error message: one in quotes, or `TypeError: object is not iterable`
    brand, campaign      names: as labelled (`Brand: Acme Cola`), or by their position in a sentence
    region               a country or region of the profile's list

Promises: the same texts give the same entities. The question has precedence over the session, and later messages over
earlier ones. Only messages of users and the system prompt are read, as a tool's output may be an untrusted page.
Entities are sent to the search provider.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from sluice.contracts.gate import Message
from sluice.gate.words import STOP_WORDS

ENTITY_NAMES = ("cve", "ghsa", "rfc", "error", "brand", "campaign", "region")
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
