"""Where going outside begins: what is searched for, and which given URLs are crawled."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from contracts.gate import Plan, Veto
from gate.profile import SearchQueries

MAX_SEARCH_CHARACTERS = 400
"""The shortest limit among the search providers' interfaces."""
MAX_URL_CHARACTERS = 4_096
SHOWN_CHARACTERS = 120


def search_seeds(query: str, queries: SearchQueries, *, time_sensitive: bool, year: int) -> tuple[str, ...]:
    """The question itself, then the profile's reformulations of it; each once, at most `max_queries`.

    A template whose own words the question already holds adds nothing and is left out.
    """
    question = _shortened(query)
    templates = (*(queries.fresh_templates if time_sensitive else ()), *queries.templates)
    filled = [_filled(template, question, year) for template in templates if _adds(template, question, year)]
    return tuple(dict.fromkeys([question, *filled]))[: queries.max_queries]


def crawl_seeds(urls: Sequence[str], plan: Plan) -> tuple[tuple[str, ...], tuple[Veto, ...]]:
    """The given URLs that can be crawled, each once, and a veto for each that cannot."""
    problems = {url: _problem(url) for url in urls}
    usable = tuple(url for url, problem in problems.items() if problem is None)
    return usable, tuple(_refused(url, problem, plan) for url, problem in problems.items() if problem is not None)


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
    """Why `url` cannot be a seed, or None. Whether its host may be reached is for the egress guard to say."""
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
