"""The commands that run processes: `up`, and the single ones that `up` and compose start.

The commands import measuring modules inside themselves, once the folder of metrics is set.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import get_args

import typer

from sluice.cli.output import configured, errors_told
from sluice.contracts.errors import Conflict, InvalidInput, InvalidSetting, NotFound
from sluice.contracts.event import Queue
from sluice.disk.durable import lock_file
from sluice.otel.settings import fresh_metrics_dir
from sluice.workers.data_dir import make_private
from sluice.workers.settings import Settings


def up(scale: list[str] | None = None, without: list[str] | None = None, log_dir: Path | None = None) -> None:
    """Run every process: broker, workers, reconciler, HTTP interface."""
    with errors_told():
        from sluice.workers.broker.celery_app import stages_of

        settings = _scaled(scale or [])
        elsewhere = frozenset(stage for name in without or () for stage in stages_of(name))
        _prepare_instance(settings)
        typer.echo(f"starting Sluice on {settings.data_dir}")
        from sluice.otel.log_files import FOLDER, OwnFile
        from sluice.otel.logs import configure
        from sluice.workers.supervisor.child import command_of
        from sluice.workers.supervisor.supervisor import Supervisor

        logs = log_dir or settings.data_dir / FOLDER
        logs.mkdir(parents=True, exist_ok=True)
        configure("sluice-up", settings.telemetry, OwnFile(logs / "up.log", is_output=False))
        program_of = _forked_programs(settings) if sys.platform.startswith("linux") else command_of
        said = {entry.partition("=")[0] for entry in scale or ()}
        scaled = frozenset(stage for stage in get_args(Queue) if stage in said)
        Supervisor(settings, logs, program_of, _show, elsewhere, scaled).run()


def _show(line: str) -> None:
    """Print a line, unless that would hold the supervisor up: on a terminal that is stopped, or is gone."""
    with suppress(OSError, ValueError):
        if select.select([], [sys.stdout], [], 0)[1]:
            typer.echo(line)


def _forked_programs(settings: Settings) -> Callable[..., Callable[[], object]]:
    """Run every process as a fork of this one, which imports the shared modules. Only Linux forks safely."""
    from sluice.workers.supervisor.child import preload

    for command in ("worker", "reconcile", "api"):
        _program(settings, command)  # imports the command's modules
    preload(settings)
    return _program


def _program(settings: Settings, command: str, stage: str = "") -> Callable[[], object]:
    """Return the function that runs a process, for the command that starts it alone."""
    match command:
        case "worker":
            from sluice.workers.processes.worker import run_worker

            return partial(run_worker, settings, stage)
        case "reconcile":
            from sluice.workers.processes.reconciler import run_reconciler

            return partial(run_reconciler, settings)
    from sluice.api import serve

    return partial(serve, settings)


def worker(stage: str, concurrency: int | None = None) -> None:
    """Run one worker of a stage, or of several."""
    with errors_told():
        from sluice.workers.broker.celery_app import pool_size, stages_of

        settings = _scaled([f"{one}={concurrency}" for one in stages_of(stage)] if concurrency else [])
        if unwanted := [one for one in stages_of(stage) if not pool_size(settings, one)]:
            raise InvalidSetting(f"pools.{unwanted[0]}", "is 0, so no worker of it is wanted", "give --concurrency")
        _run(settings, "worker", stage)


def api() -> None:
    """Run the HTTP interface."""
    with errors_told():
        _run(configured(), "api")


def reconcile() -> None:
    """Run the reconciler."""
    with errors_told():
        _run(configured(), "reconcile")


def _run(settings: Settings, command: str, stage: str = "") -> None:
    prepare_metrics(settings)
    _program(settings, command, stage)()


def prepare_metrics(settings: Settings, *, of_instance: bool = False) -> None:
    """Make the data directory private and this process's metrics part of its instance's, before any metric is made. A
    process without a supervisor keeps a folder named for its machine, as process ids mean nothing beyond it."""
    make_private(settings.data_dir)
    if of_instance or "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        folder = settings.data_dir / "metrics" / ("up" if of_instance else socket.gethostname())
        os.environ.update(fresh_metrics_dir(folder))


def _prepare_instance(settings: Settings) -> None:
    """Empty the folder of metrics.

    Raises `Conflict` if a running instance still adds to it, and `NotFound` if the ledger's file is gone: its API keys
    are gone with it, and without a key everybody on this machine would be an operator.
    """
    from sluice.index.folder import list_corpora

    make_private(settings.data_dir)
    ledger, corpora = settings.own_ledger, list_corpora(settings.index_root)
    if corpora and settings.ledger_url is None and not ledger.exists():
        remedy = "restore it from a backup, or begin a new one, without the runs and API keys, with `sluice upgrade`"
        raise NotFound(f"{ledger} is gone, and {settings.index_root} holds {', '.join(corpora)}: {remedy}")
    with lock_file(settings.data_dir / "up.lock", Conflict(f"another `sluice up` runs on {settings.data_dir}")):
        prepare_metrics(settings, of_instance=True)


def _scaled(scale: list[str]) -> Settings:
    for entry in scale:
        stage, _, size = entry.partition("=")
        if stage not in get_args(Queue) or not size.isdecimal():
            raise InvalidInput("scale", f"{entry!r} is not stage=number", "for instance --scale crawl=4")
        os.environ[f"SLUICE_POOLS__{stage.upper()}"] = size
    return configured()
