"""What the crawl did to each host, one host, and one page tried."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Response
from fastapi.responses import RedirectResponse

from sluice.api.access import CONSOLE
from sluice.api.console.frame import OperatingAll, Visit, pages
from sluice.api.console.hub import streamed, whole_number
from sluice.contracts.errors import InvalidInput
from sluice.contracts.operations.crawling import RobotsFile
from sluice.workers.service.instance import MOST_DAYS

crawl = pages()
MOST_HOSTS = 100
Days = Annotated[int, Query(ge=1, le=MOST_DAYS)]


def operates(visit: Visit, _parameters: Mapping[str, str]) -> None:
    """Require an operator of all corpora."""
    visit.caller.may_operate_instance()


@crawl.get("/crawl")
def hosts(visit: OperatingAll, days: Days = 1, host: str | None = None) -> Response:
    """Show the hosts with the most requests; with `host` lead to that one."""
    if host:
        return RedirectResponse(f"{CONSOLE}/crawl/{quote(host.strip(), safe='')}", 303)
    return visit.show("crawl.html", days=days, **host_figures(visit, {"days": str(days)}))


@streamed("crawl", "crawl_figures.html", needs=operates, seconds=5)
def host_figures(visit: Visit, parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """Read the counts of the busiest hosts."""
    since = datetime.now(UTC) - timedelta(days=whole_number(parameters, "days", MOST_DAYS) - 1)
    return {"hosts": visit.instance.context.host_stats.top(MOST_HOSTS, since.date()), "most": MOST_HOSTS}


@crawl.get("/crawl/try")
def page_to_try(visit: OperatingAll) -> Response:
    """Show the form for one page."""
    return visit.show("crawl_try.html", found=None)


@crawl.post("/crawl/try")
def try_page(visit: OperatingAll) -> Response:
    """Fetch one page, and show each decision about it."""
    corpus = visit.form.get("corpus", "default")
    visit.instance.corpora.require(corpus, visit.caller)
    found = visit.instance.crawling.explain(corpus, visit.form.get("url", "").strip())
    visit.instance.context.ledger.console.record(
        visit.caller.owner, "try_page", [f"corpus:{corpus}"], found.url[:1_000]
    )
    return visit.show("crawl_try.html", found=found)


@crawl.get("/crawl/{host}")
def one(visit: OperatingAll, host: str, days: Days = 1, url: str | None = None) -> Response:
    """Show one host."""
    parameters = {"host": host, "days": str(days)} | ({"url": url} if url else {})
    return visit.show("host.html", parameters=parameters, url=url, days=days, **figures_of_host(visit, parameters))


@streamed("host", "host_figures.html", needs=operates, seconds=5)
def figures_of_host(visit: Visit, parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """Read what a host's page shows."""
    found = visit.instance.crawling.host(
        parameters.get("host", ""), whole_number(parameters, "days", MOST_DAYS), parameters.get("url")
    )
    return {"host": found, "robots": [(one, _lines(one)) for one in found.robots]}


@crawl.post("/crawl/{host}/rest")
def rest(visit: OperatingAll, host: str) -> Response:
    """Send no request to a host for a while."""
    minutes = visit.form.get("minutes", "")
    if not minutes.isdecimal() or not 1 <= int(minutes[:6]) <= 7 * 24 * 60:
        raise InvalidInput("minutes", "give whole minutes, from 1 to 10,080 (a week)")
    found = visit.instance.crawling.rest(host, 60.0 * int(minutes), visit.caller.owner, visit.note("why", ""))
    return visit.done(f"No request to {found.host} begins for {minutes} minutes.")


@crawl.post("/crawl/{host}/wake")
def wake(visit: OperatingAll, host: str) -> Response:
    """End a rest."""
    found = visit.instance.crawling.rest(host, 0, visit.caller.owner, visit.note("why"))
    return visit.done(f"Requests to {found.host} begin again, at its usual pace.")


def _lines(robots: RobotsFile) -> list[tuple[str, bool]]:
    """Return the lines of a file, and whether each is the one that decided."""
    field, _, path = (robots.line or "").partition(": ")

    def decides(line: str) -> bool:
        named, _, value = line.partition("#")[0].partition(":")
        return bool(field) and named.strip().capitalize() == field and value.strip() == path

    return [(line, decides(line)) for line in robots.text.splitlines()]


ROUTERS = (crawl,)
