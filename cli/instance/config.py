"""`sluice config`: the settings in force and where each comes from, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sluice.cli.command import Shown, alone, table
from sluice.cli.connection import wrong
from sluice.cli.output import console, marked
from sluice.contracts.errors import InvalidSetting
from sluice.workers.broker.celery_app import pool_size
from sluice.workers.data_dir import config_file
from sluice.workers.service.operate.settings import line_of, list_settings
from sluice.workers.setting_names import given_variables, names_of, remedy_of, variable_of
from sluice.workers.settings import InvalidSettings, Settings, load_settings, stray_variables


@alone
def show(key: str | None = None, changed: bool = False) -> Shown:
    """Show each setting, its value, and where that comes from.

    A variable counts before the file, the file before the default. Keys and passwords are masked.
    """
    found, known = list_settings(load_settings()), names_of(Settings)
    if key is not None and not any(name == key or name.startswith(f"{key}.") for name in known):
        raise wrong("KEY", f"{key!r} is no setting", remedy_of(key, Settings))
    rows = [
        {"setting": one.setting, "value": one.value, "from": one.source, "line": one.line}
        for one in found
        if (one.source != "default" or not changed) and (key is None or f"{one.setting}.".startswith(f"{key}."))
    ]

    def draw() -> None:
        for row in rows:
            place = f":{row['line']}" if row["line"] else ""
            console.print(f"{row['setting']} = {marked(row['value'])} [dim]<- {marked(row['from'])}{place}[/]")

    return Shown(rows, draw) if key else table("settings", rows, "setting value from")


class Finding(NamedTuple):
    """What is wrong with a setting, or what looks wrong (`warning`); and where it is set."""

    kind: str
    setting: str
    where: str
    problem: str
    remedy: str


@alone
def check() -> Shown:
    """Name everything that is wrong with the settings, with its place; ends with 1 if something is."""
    path = config_file()
    text = path.read_text("utf-8", "replace") if path.is_file() else ""

    def place(name: str) -> str:
        if name.isupper():
            return "environment"
        if variable_of(name) in given_variables():
            return variable_of(name)
        line = line_of(text, name)
        return f"{path}:{line}" if line else str(path) if path.is_file() else "default"

    try:
        each: Iterable[InvalidSetting] = [*contradictions(load_settings())]
    except InvalidSetting as error:
        each = error.each if isinstance(error, InvalidSettings) else [error]
    found = [Finding("error", one.field, place(one.field), one.problem, one.remedy) for one in each]
    for told in stray_variables():
        name, _, problem = told.partition(" ")
        found.append(Finding("warning", name, "environment", problem, ""))
    errors = sum(one.kind == "error" for one in found)

    def draw() -> None:
        for one in found:
            colour = "red" if one.kind == "error" else "yellow"
            told = f"{one.setting}: {one.problem}" + (f" ({one.remedy})" if one.remedy else "")
            console.print(f"[{colour}]{one.kind}[/] {marked(f'{one.where}: {told}')}")
        if not found:
            console.print(f"{marked(path) if text else 'no file, so defaults'}: nothing is wrong")

    return Shown([one._asdict() for one in found], draw, int(errors > 0))


def contradictions(settings: Settings) -> Iterator[InvalidSetting]:
    """Yield settings that can each be used, and do not go together."""
    crawl, search, judge, graph = settings.crawl, settings.search, settings.judge, settings.graph
    denied = settings.egress.policy == "deny"
    if crawl.enabled and not crawl.contact:
        yield InvalidSetting("crawl.contact", "is empty while crawl.enabled is on", "name a web or mail address")
    for name, part in (("crawl", crawl), ("search", search)):
        if part.enabled and denied:
            yield InvalidSetting(f"{name}.enabled", "is on while egress.policy is deny", "nothing may go out")
        if part.enabled and not pool_size(settings, "crawl" if name == "crawl" else "search"):
            yield InvalidSetting(f"pools.{name}", f"is 0 while {name}.enabled is on", "nobody would do it")
    if search.enabled and not search.providers:
        yield InvalidSetting("search.providers", "is empty while search.enabled is on", "name one, such as ddgs")
    for provider in ("brave", "serpapi", "tavily") if search.enabled else ():
        if provider in search.providers and not getattr(search, f"{provider}_api_key"):
            yield InvalidSetting(f"search.{provider}_api_key", f"is missing, and {provider} is a provider", "set it")
    if search.enabled and "searxng" in search.providers and not search.searxng_url:
        yield InvalidSetting("search.searxng_url", "is missing, and searxng is a provider", "set it")
    if settings.freshness.every_hours and not crawl.enabled:
        yield InvalidSetting("freshness.every_hours", "is set while crawl.enabled is off", "no page is fetched again")
    if settings.memory.distil_by_model and judge.model is None:
        yield InvalidSetting("memory.distil_by_model", "is on without judge.model", "set that, or switch this off")
    if graph.in_retrieval and not graph.enabled and "in_retrieval" in graph.model_fields_set:
        yield InvalidSetting("graph.in_retrieval", "is on while graph.enabled is off", "switch that on too")
    if settings.index.engine == "qdrant" and not settings.qdrant.url:
        yield InvalidSetting("qdrant.url", "is missing, and index.engine is qdrant", "set it")
    run, day = settings.budget.run_usd, settings.budget.day_usd
    if run is not None and day is not None and run > day:
        yield InvalidSetting("budget.run_usd", f"is {run}, above the {day} of budget.day_usd", "lower it")
    if crawl.enabled and settings.budget.day_pages is not None and crawl.max_pages > settings.budget.day_pages:
        yield InvalidSetting("crawl.max_pages", "is above budget.day_pages", "lower it")
