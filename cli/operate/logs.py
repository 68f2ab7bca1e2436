"""`sluice logs`: what the processes of an instance on this machine have written, in order of time."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from datetime import datetime
from pathlib import Path

import typer

from sluice.cli.command import Stage
from sluice.cli.connection import data_folder
from sluice.cli.output import error_console, plain_text
from sluice.otel.log_files import FOLDER, Line, Tail, parsed, read
from sluice.otel.story import story_of

FOLLOW_SECONDS = 0.3


def logs(
    run_id: str | None = None,
    stage: Stage | None = None,
    follow: bool = False,
    since: datetime | None = None,
    limit: int = 200,
    log_dir: Path | None = None,
    as_json: bool = False,
) -> None:
    """Show what the processes of an instance wrote: of one run across all of them, of a stage, or as it comes."""
    folder = log_dir or data_folder() / FOLDER
    if not folder.is_dir():
        error_console.print(f"[red]error[/] there is no {folder}: `sluice up` writes it", soft_wrap=True)
        raise typer.Exit(3)
    tail = Tail(folder)
    tail.skip()
    found = _chosen(read(folder, since, (run_id or "").encode()), run_id, stage)
    with suppress(KeyboardInterrupt) if follow else nullcontext():
        _print(found if run_id or since else deque(found, limit), as_json=as_json)
        while follow:
            _print(_chosen(tail.lines(), run_id, stage), as_json=as_json)
            time.sleep(FOLLOW_SECONDS)


def _chosen(lines: Iterable[Line], run_id: str | None, stage: str | None) -> Iterator[Line]:
    for line in lines:
        told = parsed(line.text) if run_id or stage else None
        if run_id and (told or {}).get("run_id") != run_id:
            continue
        own = line.process.rpartition("-")[0].split("+")
        stages = [told["stage"]] if told and told.get("stage") else own
        if stage is None or stage in stages:
            yield line


def _print(lines: Iterable[Line], *, as_json: bool) -> None:
    """Print each line: as it was written, if it is JSON and that is wanted, else as people read it."""
    for line in lines:
        told = parsed(line.text)
        if as_json and told is None:
            continue
        shown = line.text.decode("utf-8", "replace") if as_json or told is None else story_of(told)
        sys.stdout.write((shown if as_json else plain_text(shown)) + "\n")
    sys.stdout.flush()
