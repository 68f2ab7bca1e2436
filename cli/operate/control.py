"""`sluice flags`, `sluice stages`, `sluice hosts`: what is switched on, what waits and rests, whom the crawl visits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from sluice.cli.choices import FLAG_VARIABLES as VARIABLES
from sluice.cli.choices import Stage
from sluice.cli.command import ACTIONS, Column, Note, Shown, chosen, needed, over_http, say, table
from sluice.cli.connection import Record
from sluice.cli.output import error_console

if TYPE_CHECKING:
    from sluice_client import SluiceClient
    from sluice_client.models import FlagResult

MOST_DAYS = 8
_FLAGS: tuple[Column, ...] = (
    "decided_by",
    "why",
    ("variable", lambda x: VARIABLES.get(x.name)),
    "operator",
    ("changed", "changed_at"),
)
_DEPTHS: tuple[Column, ...] = ("stage", ("threads", "at_once"), "ready", "claimed", "waiting")
_RESTS: tuple[Column, ...] = ("paused_because", "paused_by", ("probe at", "probe_at"))


@over_http
def flags(
    client: SluiceClient,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help=f"One of {', '.join(VARIABLES)}.")] = None,
    on: Annotated[bool, typer.Option("--on", help="Switch it on, where nothing above decides otherwise.")] = (False),
    off: Annotated[bool, typer.Option("--off", help="Switch it off. Of search or crawl what waits is cancelled.")] = (
        False
    ),
    kill: Annotated[bool, typer.Option("--kill", help="Hold it off, whatever else decides, until reset.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Take back what is stored, its kill switch too.")] = False,
    operator: Annotated[str | None, typer.Option(help="Who does it; by default this machine's user. Recorded.")] = None,
    note: Note = "",
) -> Shown:
    """Feature flags: who decides each, what operators did to one, and switching it at run time."""
    action = chosen(on=on, off=off, kill=kill, reset=reset)
    if action is None and name is None:
        return table("flags", client.flags(), ("flag", "name"), ("is", lambda x: _is(x.enabled)), *_FLAGS)
    name = needed("name", name, action or "show")
    if action is None:
        return table(f"flag {name}", client.flag_history(name), *ACTIONS)
    if action == "reset":
        result = client.reset_flag(name, note)
    else:
        result = client.set_flag(name, action == "on", kill=action == "kill", note=note)
    return Shown(result, lambda: _say_result(result, action))


def _is(enabled: bool) -> str:
    return "on" if enabled else "off"


def _say_result(result: FlagResult, action: str) -> None:
    state, run = result.state, f": sluice runs {result.run_id}" if result.run_id else "; nothing changed"
    purged = f", {result.purged} directives cancelled" if result.purged else ""
    say(f"{state.name} is {_is(state.enabled)} (decided by {state.decided_by}){purged}{run}")
    if action in ("on", "off") and state.enabled != (action == "on"):
        remedy = f"`sluice flags {state.name} --kill` switches it off all the same"
        told = f"it is stored, but {state.decided_by} decides ({state.why}): "
        told += remedy if state.enabled else "change that first"
        error_console.print(told, markup=False, highlight=False, soft_wrap=True)


@over_http
def stages(
    client: SluiceClient,
    stage: Annotated[Stage | None, typer.Argument(help=f"One of {', '.join(get_args(Stage))}.")] = None,
    pause: Annotated[bool, typer.Option("--pause", help="Its events stay ready until it is resumed.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Whoever paused it, an operator or its breaker.")] = False,
    why: Annotated[str, typer.Option(help="Why it is paused; it is recorded.")] = "",
) -> Shown:
    """Stages: what waits in each, the threads that serve it, which are paused; pause or resume one."""
    action = chosen(pause=pause, resume=resume)
    if action:
        named = needed("stage", stage, action)
        found = client.pause_stage(named, why) if action == "pause" else client.resume_stage(named)
    else:
        found = [one for one in client.stages() if stage in (None, one.stage)]
    workers = client.health().checks.get("workers")
    threads = (workers and workers.facts and workers.facts.get("at_once")) or {}
    rows = [Record({**dict(one), "at_once": threads.get(one.stage)}) for one in found]
    oldest = ("oldest (s)", lambda one: round(one.oldest_ready_seconds, 1))
    return table("stages", rows, *_DEPTHS, oldest, *_RESTS)


@over_http
def hosts(
    client: SluiceClient,
    days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, help="Days to add up, today included.")] = 1,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Hosts to show, the most asked first.")] = 20,
) -> Shown:
    """Hosts: what the crawl asked of each, and how that went."""
    return table(
        f"hosts since {(datetime.now(UTC) - timedelta(days=days - 1)).date()}",
        client.hosts(days, limit),
        "host",
        "requests",
        "pages",
        ("success", lambda row: f"{row.success_share:.0%}"),
        ("rendered", lambda row: f"{row.render_share:.0%}"),
        ("robots refused", "robots_refusals"),
        ("egress refused", "egress_refusals"),
        ("bytes", "received_bytes"),
        ("waited s", lambda row: f"{row.waited_seconds:.1f}"),
        ("interval s", lambda row: f"{row.interval_seconds:.2f}"),
    )
