"""`sluice status`: an instance at a glance, once or every second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer

from sluice.cli.command import Shown, over_http
from sluice.cli.connection import whereabouts
from sluice.cli.output import console, plain_text, print_json, say
from sluice_client import SluiceClient
from sluice_client.errors import Unavailable

if TYPE_CHECKING:
    from rich.table import Table

WELL, ILL, NOT_RUNNING = 0, 1, 3
"""Exit codes."""
WATCH_SECONDS = 1.0
_BARS = "▁▂▃▄▅▆▇█"
_BAR_MINUTES = 6


@over_http
def status(client: SluiceClient, watch: bool = False, as_json: bool = False) -> Shown:
    """Show an instance at a glance: pools, queues, failures, disk and the last backup."""
    if not watch:
        found = _look(client)
        return Shown(found, lambda: _draw(found), _code_of(found))
    code = NOT_RUNNING
    try:
        for found in _every_second(client, as_json=as_json):
            code = _code_of(found)
            if as_json:
                print_json(found, indent=None)
            elif not console.is_terminal:
                say(line_of(found))
    except KeyboardInterrupt:
        raise typer.Exit(code) from None
    raise AssertionError("it looks until it is interrupted")


def _look(client: SluiceClient) -> Any:
    try:
        return client.overview()
    except Unavailable:
        return {"error": "not_running", "message": f"no instance answers at {whereabouts()[0]}", "field": None}


def _code_of(found: Any) -> int:
    return NOT_RUNNING if found.get("error") else WELL if found.ok else ILL


def _every_second(client: SluiceClient, *, as_json: bool) -> Iterator[Any]:
    if as_json or not console.is_terminal:
        while True:
            yield _look(client)
            time.sleep(WATCH_SECONDS)
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        while True:
            found = _look(client)
            live.update(drawing_of(found), refresh=True)
            yield found
            time.sleep(WATCH_SECONDS)


def _draw(found: Any) -> None:
    console.print(drawing_of(found), soft_wrap=False)


def drawing_of(found: Any) -> Any:
    """Return what a terminal shows of an overview."""
    if found.get("error"):
        return plain_text(f"{found['message']}; start it with `sluice up`")
    from rich.console import Group
    from rich.text import Text

    return Group(_head(found), Text(), _stages(found), Text(), *(Text(plain_text(one)) for one in facts_of(found)))


def _head(found: Any) -> Any:
    from rich.text import Text

    state = Text("well", "green") if found.ok else Text("ill", "bold red")
    return Text.assemble(f"Sluice {found.version} at {found.at.astimezone():%H:%M:%S}: ", state)


def _stages(found: Any) -> Table:
    """Return a row a stage. In and done are of the last whole minute, failed and parked of the last hour."""
    from rich.table import Table

    headings = ("stage", "workers", "ready", "claimed", "waiting", "oldest", "in", "done", "failed", "parked")
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "stage" else "right", no_wrap=True)
    table.add_column("hour", no_wrap=True)
    for stage in found.stages:
        last = _last_minute(stage.minutes, found.at)
        table.add_row(
            stage.stage,
            f"{stage.workers}/{stage.workers_wanted}",
            *(str(count) for count in (stage.ready, stage.claimed, stage.waiting)),
            _age(stage.oldest_ready_seconds) if stage.ready else "–",
            *(str(last[name]) if last else "–" for name in ("entered", "handled")),
            *(str(sum(minute[name] for minute in stage.minutes)) for name in ("failed", "parked")),
            bars_of(stage.minutes, found.at),
        )
    return table


def _last_minute(minutes: Sequence[Any], now: datetime) -> Any:
    whole = now.replace(second=0, microsecond=0) - timedelta(minutes=1)
    return next((minute for minute in minutes if minute.at == whole), None)


def bars_of(minutes: Sequence[Any], now: datetime) -> str:
    """Return how much a stage did in each six minutes of the last hour, as bars; none where it did nothing."""
    sums = [0] * (60 // _BAR_MINUTES)
    for minute in minutes:
        ago = int((now - minute.at).total_seconds() // 60) // _BAR_MINUTES
        if 0 <= ago < len(sums):
            sums[-1 - ago] += minute["handled"] + minute["failed"] + minute["parked"]
    most = max(sums)
    return "".join(_BARS[count * (len(_BARS) - 1) // most] for count in sums) if most else ""


def facts_of(found: Any) -> Iterator[str]:
    """Yield a line for each fact beside the stages."""
    for name, check in found.checks.items():
        if not check.ok:
            yield f"ill: {name}: {check.detail}"
    if found.missing:
        yield f"could not be read: {', '.join(found.missing)}"
    for stage in found.stages:
        if stage.paused_because:
            yield f"paused: {stage.stage} by {stage.paused_by or 'its breaker'}: {stage.paused_because}"
    letters = ", ".join(f"{count} {reason}" for reason, count in sorted(found.letters.items()))
    yield f"dead letters: {letters or 'none'}" + (f"; {found.letters_today} today" if found.letters_today else "")
    free = (found.checks["disk"].facts or {}).get("free_bytes") if "disk" in found.checks else None
    if free is not None:
        yield f"disk: {free / 1e9:.1f} GB free"
    spent = [f"{one.used:g} of {one.ceiling:g} {one.unit}" for one in found.spending if one.ceiling is not None]
    yield f"used today: {', '.join(spent)}"
    last = found.last_backup_at
    ago = f"{_age((datetime.now(UTC) - last).total_seconds())} ago, {found.last_backup}" if last else "none"
    yield f"last backup: {ago}"
    for run in found.oldest_runs:
        age = _age((found.at - run.created_at).total_seconds())
        yield f"open for {age}: {run.run_id} {run.kind} {run.query or ''}".rstrip()


def line_of(found: Any) -> str:
    """Return an overview as one line, for a file or a pipe."""
    if found.get("error"):
        return f"{datetime.now():%H:%M:%S} not running"
    counts: Callable[[str], int] = lambda name: sum(stage[name] for stage in found.stages)  # noqa: E731
    oldest = max((stage.oldest_ready_seconds for stage in found.stages), default=0.0)
    workers = " ".join(f"{stage.stage} {stage.workers}/{stage.workers_wanted}" for stage in found.stages)
    told = f"{found.at.astimezone():%H:%M:%S} {'well' if found.ok else 'ill'}"
    told += f"  ready {counts('ready')} claimed {counts('claimed')} waiting {counts('waiting')} oldest {_age(oldest)}"
    return f"{told}  dead letters {sum(found.letters.values())}  {workers}"


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
