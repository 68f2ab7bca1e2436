"""`make demo`: one whole run on a small real web, shown and checked. Exit 0 only if all of it happened."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from bench.demo.account import missing_from_first, missing_from_second, show_run
from bench.demo.instance import DemoInstance
from bench.demo.metric_names import missing_directives, missing_metrics, table_of
from bench.demo.web import DemoWeb
from sluice.contracts.api import RunView
from sluice.contracts.errors import SluiceError
from sluice.contracts.event import Event, decode
from sluice_client import SluiceClient, errors, models

QUESTION = "How does ChainMap group multiple dicts to create a single, updateable view?"
FOLDER = Path(__file__).resolve().parents[2] / ".demo"
SCRAPE_SECONDS = 20.0
"""Until feedback is handled and a gauge is measured."""
RUN_SECONDS = 240.0
"""A generous ceiling: six pages rendered and embedded on one slow core."""


def main() -> int:
    """Run the demonstration and return the exit code."""
    console = Console(width=120)
    started = time.monotonic()
    try:
        with DemoWeb() as web:
            console.print(f"a web of Python's own documentation is at {web.url}")
            missing = _demonstrate(console, web)
    except (SluiceError, errors.SluiceError, RuntimeError) as error:
        missing = [str(error)]
    for sentence in missing:
        console.print(f"[red]not shown:[/red] {escape(sentence)}")
    if not missing:
        console.print(f"[green]all of it happened[/green] in {time.monotonic() - started:.0f} s")
    return 1 if missing else 0


def _demonstrate(console: Console, web: DemoWeb) -> list[str]:
    with DemoInstance(FOLDER, web) as instance, SluiceClient(instance.url) as client:
        console.print(f"Sluice is at {instance.url}; its logs are in {FOLDER / 'logs'}")
        return [*_first(console, client, instance), *_second(console, client), *_metrics(console, client)]


def _first(console: Console, client: SluiceClient, instance: DemoInstance) -> list[str]:
    run, events, seconds = _ask(client)
    show_run(console, f"asked of an empty corpus: {QUESTION}", run, seconds)
    trace = instance.trace(run.run_id)
    console.print(Text.from_ansi(trace))
    missing = list(missing_from_first(run, events))
    return missing if trace.strip() else [*missing, "`sluice trace` shows nothing of the run"]


def _second(console: Console, client: SluiceClient) -> list[str]:
    run, events, seconds = _ask(client)
    show_run(console, "asked again", run, seconds)
    return list(missing_from_second(run, events))


def _metrics(console: Console, client: SluiceClient) -> list[str]:
    """Say how the answer did; then every named metric has to be there."""
    run, events, _ = _ask(client)
    used = run.answer.citations[:1] if run.answer else ()
    client.feedback(run.run_id, chunk_ids_used=[citation.chunk_id for citation in used], outcome="success")
    deadline = time.monotonic() + SCRAPE_SECONDS
    shown = client.metrics()
    while any(missing_metrics(shown)) and time.monotonic() < deadline:
        time.sleep(0.2)
        shown = client.metrics()
    console.print(table_of(shown))
    return [*missing_metrics(shown), *missing_directives(run, events)]


def _ask(client: SluiceClient) -> tuple[RunView, list[Event], float]:
    """The finished run, its events, and how many seconds it took.

    Raises:
        RuntimeError: it was not finished within its deadline.
    """
    started = time.monotonic()
    run = client.gate(QUESTION, wait=True, deadline_seconds=RUN_SECONDS)
    if not isinstance(run, models.RunView):
        raise RuntimeError(f"run {run.run_id} was not finished after {RUN_SECONDS:g} s")
    events = [decode(event.model_dump_json(exclude_unset=True)) for event in client.events(run.run_id)]
    return RunView.model_validate_json(run.model_dump_json(exclude_unset=True)), events, time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
