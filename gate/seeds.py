"""Chooses the search queries, and the given URLs to crawl first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from sluice.contracts.gate import Message, SearchAim, Veto
from sluice.contracts.ingest import Vertical
from sluice.contracts.plan import Plan
from sluice.gate.entities import extract_entities
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
