"""Opens the configured instance for commands that work on its data directory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from sluice.cli.output import configured, errors_told
from sluice.contracts.api import ENDED
from sluice.contracts.errors import InvalidSetting, TimedOut, Unavailable
from sluice.contracts.event import Event
from sluice.otel.logs import configure as configure_logs
from sluice.otel.settings import TelemetrySettings
from sluice.otel.start import shutdown as stop_telemetry
from sluice.otel.start import start as start_telemetry
from sluice.workers.context import Context
from sluice.workers.data_dir import make_private

PATIENCE_SECONDS = 0.5
"""Longest wait for an announcement, in seconds, before the ledger is read again."""


@contextmanager
def session(*, as_json: bool = False) -> Iterator[Context]:
    """Yield the context of the configured instance; errors become a message and an exit code."""
    with errors_told(as_json=as_json):
        settings = configured()
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        configure_logs("sluice-cli", quiet(settings.telemetry))
        make_private(settings.data_dir)  # after the log is set up: its log lines must not come before a JSON answer
        context = Context(settings)
        context.append_again = _append_again
        try:
            yield context
        except Exception as error:
            # Errors of the broker's clients, which are imported only where a command needs the broker.
            if type(error).__module__.partition(".")[0] not in ("redis", "kombu", "amqp"):
                raise
            raise Unavailable(f"the broker does not answer: {error}") from error
        finally:
            context.close()
            stop_telemetry()


def _append_again(context: Context) -> None:
    from sluice.workers.handlers import append_again  # imports all that handles events

    append_again(context)


def begin_work(context: Context) -> None:
    """Trace the command from here on, as it begins work for the instance's workers. Raises `Unavailable` if the broker
    does not answer, so that the work would not be done."""
    from sluice.workers.broker.transport import BROKER_ERRORS

    settings = context.settings
    start_telemetry("sluice-cli", quiet(settings.telemetry), data_dir=settings.data_dir, instance=settings.instance)
    try:
        context.transport.ping()
    except (InvalidSetting, *BROKER_ERRORS) as error:
        raise Unavailable("the broker does not answer; is `sluice up` running?") from error


def quiet(telemetry: TelemetrySettings, level: str = "warning") -> TelemetrySettings:
    """Raise the log level of a command from `info`: a command prints its results, and its log is for trouble."""
    return telemetry.model_copy(update={"log_level": level}) if telemetry.log_level == "info" else telemetry


def follow(context: Context, run_id: str, timeout_seconds: float) -> Iterator[Event]:
    """Yield the run's events as they are recorded, until it ends. Announcements wake it. It reads the ledger first and
    at least every `PATIENCE_SECONDS`, so it misses no event. Raises `TimedOut` if the run goes on after
    `timeout_seconds`."""
    seen, deadline = 0, time.monotonic() + timeout_seconds
    with closing(context.transport.listen()) as news:
        while True:
            found = context.ledger.events_after(run_id, seen)
            for position, event in found:
                seen = position
                yield event
            if found:
                continue
            if context.ledger.status_of(run_id) in ENDED:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"{run_id} goes on; look again with `sluice runs {run_id}`")
            news.get_message(timeout=min(left, PATIENCE_SECONDS))
