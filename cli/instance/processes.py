"""Running the processes: `up`, and the single ones that `up` and compose start.

What measures is imported inside the commands, once the folder of its figures is named.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import typer

from sluice.cli.configured import configured
from sluice.cli.output import errors_told
from sluice.contracts.errors import Conflict, InvalidInput
from sluice.contracts.event import Queue
from sluice.disk.locks import lock_file
from sluice.otel.environment import fresh_metrics_dir
from sluice.workers.runtime.private_files import make_private
from sluice.workers.settings import Settings

if TYPE_CHECKING:
    from sluice.workers.supervisor.child import Program


def up(scale: list[str] | None = None, log_dir: Path | None = None) -> None:
    """Run every process: broker, workers, reconciler, HTTP interface."""
    with errors_told():
        settings = _scaled(scale or [])
        _prepare_instance(settings)
        typer.echo(f"starting Sluice on {settings.data_dir}")
        from sluice.otel.logs import configure
        from sluice.workers.supervisor.child import command_of
        from sluice.workers.supervisor.supervisor import Supervisor

        configure("sluice-up", settings.telemetry)
        program_of = _forked_programs(settings) if sys.platform.startswith("linux") else command_of
        Supervisor(settings, log_dir, program_of, typer.echo).run()


def _forked_programs(settings: Settings) -> Callable[..., Program]:
    """Every process as a fork of this one, which imports what they share; elsewhere a fork of that is not safe."""
    from sluice.api import serve
    from sluice.workers.processes.reconciler import run_reconciler
    from sluice.workers.processes.worker import run_worker
    from sluice.workers.supervisor.preload import preload

    preload(settings)

    def program_of(command: str, stage: str = "") -> Program:
        match command:
            case "worker":
                return lambda: run_worker(settings, stage)
            case "reconcile":
                return lambda: run_reconciler(settings)
            case _:
                return lambda: serve(settings)

    return program_of


def worker(stage: str, concurrency: int | None = None) -> None:
    """Run one worker of a stage, or of several."""
    with errors_told():
        from sluice.workers.broker.celery_app import stages_of

        settings = _scaled([f"{one}={concurrency}" for one in stages_of(stage)] if concurrency else [])
        prepare_metrics(settings)
        from sluice.workers.processes.worker import run_worker

        run_worker(settings, stage)


def api() -> None:
    """Run the HTTP interface."""
    with errors_told():
        settings = configured()
        prepare_metrics(settings)
        from sluice.api import serve

        serve(settings)


def reconcile() -> None:
    """Run the reconciler."""
    with errors_told():
        settings = configured()
        prepare_metrics(settings)
        from sluice.workers.processes.reconciler import run_reconciler

        run_reconciler(settings)


def prepare_metrics(settings: Settings, *, of_instance: bool = False) -> None:
    """Make the data directory private and this process's metrics part of its instance's, before any metric is made.

    A process that no supervisor started keeps a folder of its own, named for its machine, as process
    ids mean nothing beyond it.
    """
    make_private(settings.data_dir)
    if of_instance or "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        folder = settings.data_dir / "metrics" / ("up" if of_instance else socket.gethostname())
        os.environ.update(fresh_metrics_dir(folder))


def _prepare_instance(settings: Settings) -> None:
    """Empty the folder of figures, unless a running instance still adds to it.

    Raises:
        Conflict: it does.
    """
    make_private(settings.data_dir)
    with lock_file(settings.data_dir / "up.lock", Conflict(f"another `sluice up` runs on {settings.data_dir}")):
        prepare_metrics(settings, of_instance=True)


def _scaled(scale: list[str]) -> Settings:
    for entry in scale:
        stage, _, size = entry.partition("=")
        if stage not in get_args(Queue) or not size.isdecimal() or int(size) < 1:
            raise InvalidInput("scale", f"{entry!r} is not stage=number", "for instance --scale crawl=4")
        os.environ[f"SLUICE_POOLS__{stage.upper()}"] = size
    return configured()
