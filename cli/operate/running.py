"""Operation of an instance: `sluice runs` and `trace`, `flags`, `stages`, and `hosts` that the crawl visits."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from sluice.cli.agent.answers import print_run
from sluice.cli.command import ACTIONS, FLAG_VARIABLES, RunKind, Shown, Stage, chosen, needed, over_http, table
from sluice.cli.connection import ENDED, Record
from sluice.cli.output import error_console, print_wide, say, warn
from sluice_client import SluiceClient, models

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
    """Say where the time of a run went, and draw its steps: waits by name, work, failures."""
    found = client.trace(run_id)

    def draw() -> None:
        from sluice.cli.operate.waterfall import waterfall

        say(found.sum_line)
        print_wide(waterfall(found))

    return Shown(found, draw)


@over_http
def flags(
    client: SluiceClient,
    name: str | None = None,
    on: bool = False,
    off: bool = False,
    kill: bool = False,
    reset: bool = False,
    share: float | None = None,
    operator: str | None = None,
    note: str = "",
) -> Shown:
    """Feature flags: who decides each, what operators did to one, and switching it at run time."""
    action = chosen(on=on, off=off, kill=kill, reset=reset)
    if action is None and name is None:
        variable = ("variable", lambda one: FLAG_VARIABLES.get(one.name))
        state = ("is", _is)
        return table(
            "flags", client.flags(), "flag=name", state, "decided_by why", variable, "operator changed=changed_at"
        )
    name = needed("name", name, action or "show")
    if action is None:
        return table(f"flag {name}", client.flag_history(name), ACTIONS)
    if action == "reset":
        result = client.reset_flag(name, note)
    else:
        result = client.set_flag(name, action == "on", share=share and share / 100, kill=action == "kill", note=note)
    return Shown(result, lambda: _say_result(result, action))


def _is(state: models.FlagState) -> str:
    return ("on" if state.enabled else "off") + (f" for {state.share:.0%} of the runs" if state.share else "")


def _say_result(result: models.FlagResult, action: str) -> None:
    state, run = result.state, f": sluice runs {result.run_id}" if result.run_id else "; nothing changed"
    purged = f", {result.purged} directives cancelled" if result.purged else ""
    say(f"{state.name} is {_is(state)} (decided by {state.decided_by}){purged}{run}")
    if action in ("on", "off") and state.enabled != (action == "on"):
        remedy = f"`sluice flags {state.name} --kill` switches it off all the same"
        told = f"it is stored, but {state.decided_by} decides ({state.why}): "
        warn(told + (remedy if state.enabled else "change that first"))


@over_http
def stages(
    client: SluiceClient,
    stage: Stage | None = None,
    pause: bool = False,
    resume: bool = False,
    scale: int | None = None,
    rescale: bool = False,
    why: str = "",
) -> Shown:
    """Stages: what waits in each, the threads that serve it, which are paused; pause, resume or resize one."""
    action = chosen(pause=pause, resume=resume, scale=scale is not None, rescale=rescale)
    if action in ("scale", "rescale"):
        scaled = client.scale_stage(needed("stage", stage, action), scale, note=why)
        return Shown(scaled, f"{scaled.stage}: {scaled.workers_wanted} at once from now on; {scaled.how}")
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
