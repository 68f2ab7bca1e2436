"""Operation of an instance: `sluice runs` and `trace`, `flags`, `stages`, and `hosts` that the crawl visits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.cli.agent.answers import print_run
from sluice.cli.command import ACTIONS, FLAG_VARIABLES, RunKind, Shown, Stage, chosen, needed, over_http, table
from sluice.cli.connection import ENDED, Record
from sluice.cli.output import error_console, print_wide, say, warn
from sluice_client import SluiceClient, models

if TYPE_CHECKING:
    from sluice.otel.spans import StoredSpan

MOST_DAYS = 8


@over_http
def runs(
    client: SluiceClient,
    run_id: str | None = None,
    cancel: bool = False,
    corpus: str | None = None,
    kind: RunKind | None = None,
    limit: int = 20,
    as_json: bool = False,
) -> Shown:
    """Show one run, list the latest, or cancel one."""
    if cancel:
        named = needed("RUN", run_id, "cancel")
        if client.run(named).status in ENDED and not as_json:
            error_console.print("[dim]it had ended already[/]")
        ended = client.cancel(named)
        return Shown(ended, lambda: print_run(ended))
    if run_id:
        view = client.run(run_id)
        return Shown(view, lambda: _print_run(client, view))
    found = client.runs(limit=limit, corpus=corpus, kind=kind)
    question = ("question", lambda run: (run.query or "")[:60])
    return table("runs", found, "run=run_id kind corpus status created=created_at", ("USD", "{.usd:.4f}"), question)


def _print_run(client: SluiceClient, view: models.RunView) -> None:
    print_run(view, why=True)
    if view.kind == "control":  # its records are in its events alone
        for event in client.events(view.run_id):
            if event.kind != "RunFinished":
                facts = json.dumps({name: value for name, value in event.body.items() if value}, ensure_ascii=False)
                say(f"{event.kind} {facts}")


@over_http
def trace(client: SluiceClient, run_id: str) -> Shown:
    """Draw the steps of a run as a waterfall, from the local span store."""
    found = client.trace(run_id)

    def draw() -> None:
        from sluice.otel.waterfall import render_waterfall

        print_wide(render_waterfall(list(_spans(found.spans))))

    return Shown(found, draw)


def _spans(tree: Sequence[dict[str, Any]]) -> Iterator[StoredSpan]:
    """Yield the spans of a tree, as they were stored."""
    from sluice.otel.spans import SpanLink, StoredSpan

    names = {field.name for field in fields(StoredSpan)}
    for one in tree:
        links = tuple(SpanLink(**link) for link in one["links"])
        yield StoredSpan(**{name: value for name, value in one.items() if name in names} | {"links": links})
        yield from _spans(one["children"])


@over_http
def flags(
    client: SluiceClient,
    name: str | None = None,
    on: bool = False,
    off: bool = False,
    kill: bool = False,
    reset: bool = False,
    operator: str | None = None,
    note: str = "",
) -> Shown:
    """Feature flags: who decides each, what operators did to one, and switching it at run time."""
    action = chosen(on=on, off=off, kill=kill, reset=reset)
    if action is None and name is None:
        variable = ("variable", lambda one: FLAG_VARIABLES.get(one.name))
        state = ("is", lambda one: _is(one.enabled))
        return table(
            "flags", client.flags(), "flag=name", state, "decided_by why", variable, "operator changed=changed_at"
        )
    name = needed("name", name, action or "show")
    if action is None:
        return table(f"flag {name}", client.flag_history(name), ACTIONS)
    if action == "reset":
        result = client.reset_flag(name, note)
    else:
        result = client.set_flag(name, action == "on", kill=action == "kill", note=note)
    return Shown(result, lambda: _say_result(result, action))


def _is(enabled: bool) -> str:
    return "on" if enabled else "off"


def _say_result(result: models.FlagResult, action: str) -> None:
    state, run = result.state, f": sluice runs {result.run_id}" if result.run_id else "; nothing changed"
    purged = f", {result.purged} directives cancelled" if result.purged else ""
    say(f"{state.name} is {_is(state.enabled)} (decided by {state.decided_by}){purged}{run}")
    if action in ("on", "off") and state.enabled != (action == "on"):
        remedy = f"`sluice flags {state.name} --kill` switches it off all the same"
        told = f"it is stored, but {state.decided_by} decides ({state.why}): "
        warn(told + (remedy if state.enabled else "change that first"))


@over_http
def stages(
    client: SluiceClient, stage: Stage | None = None, pause: bool = False, resume: bool = False, why: str = ""
) -> Shown:
    """Stages: what waits in each, the threads that serve it, which are paused; pause or resume one."""
    action = chosen(pause=pause, resume=resume)
    if action:
        named = needed("stage", stage, action)
        found = (client.pause_stage(named, why) if action == "pause" else client.resume_stage(named)).data
    else:
        found = [one for one in client.stages() if stage in (None, one.stage)]
    workers = client.health().checks.get("workers")
    threads = (workers and workers.facts and workers.facts.get("at_once")) or {}
    rows = [Record({**dict(one), "at_once": threads.get(one.stage)}) for one in found]
    oldest = ("oldest (s)", lambda one: round(one.oldest_ready_seconds, 1))
    rests = "paused_because paused_by probe_at"
    return table("stages", rows, "stage threads=at_once ready claimed waiting", oldest, rests)


@over_http
def hosts(client: SluiceClient, days: int = 1, limit: int = 20) -> Shown:
    """Hosts: what the crawl asked of each, and how that went."""
    shares = (("success", "{.success_share:.0%}"), ("rendered", "{.render_share:.0%}"))
    counts = "robots_refused=robots_refusals egress_refused=egress_refusals bytes=received_bytes"
    times = (("waited s", "{.waited_seconds:.1f}"), ("interval s", "{.interval_seconds:.2f}"))
    since = (datetime.now(UTC) - timedelta(days=days - 1)).date()
    return table(f"hosts since {since}", client.hosts(days, limit), "host requests pages", *shares, counts, *times)
