"""Logs: one JSON object per line on stderr, with its run and its trace.

Every line has `timestamp` (ISO 8601, UTC), `level`, `event`, `service` and `logger`; inside a span also `run_id`,
`event_id`, `trace_id` and `span_id`. The standard library's loggers (Celery, uvicorn, ours) and structlog's go through
the same chain, so a secret is masked in every logger's lines (`redact`, which spans use too), and web addresses lose
query and fragment. Of warnings and errors that repeat, ten a minute are written (`Repeats`).
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from sluice.otel.log_files import VARIABLE, OwnFile
from sluice.otel.settings import TelemetrySettings

MASK = "***"

_SECRET_KEY = re.compile(
    r"(?:^|[_\-. ])(?:api[_-]?key|key|token|secret|password|passwd|authorization|cookie|credential)s?$"
    r"|(?:apikey|secret|password|authorization)",
    re.IGNORECASE,
)
_WEB_URL = re.compile(r"\bhttps?://[^\s\"'<>]+", re.IGNORECASE)
_URL_USER = re.compile(r"(\b[a-z][a-z0-9+.\-]{0,30}://)[^/?#\s\"'<>]*@", re.IGNORECASE)
_QUERY_SECRET = re.compile(
    r"([?&](?:[a-z0-9]+[_-])*(?:api_?key|key|token|secret|password)=)[^&#\s\"'<>]+", re.IGNORECASE
)
_BEARER = re.compile(r"\b(bearer|basic)\s+[a-z0-9._~+/=\-]{8,}", re.IGNORECASE)
_TOKEN = re.compile(
    r"\b(gh[oprsu]_|github_pat_|glpat-|xox[abceoprs]-|sk-|[rs]k_(?:live|test)_|AKIA|ASIA|AIza|hf_|npm_|pypi-|SG\.|"
    r"dop_v1_|shpat_|GOCSPX-|ya29\.|eyJ)[A-Za-z0-9_.-]{16,}"
)
"""Tokens that their first characters identify. Texts of documents have rules of their own, in `trust`."""
_WEBHOOK_SECRET = re.compile(r"\b(whsec_)[A-Za-z0-9+/=]{16,}")


def redact(value: Any, key: str = "") -> Any:
    """Return `value` as it may be shown under `key`: a masked copy, of the same shape, in plain types."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if key and _SECRET_KEY.search(key):
        return MASK
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {name: redact(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(inner) for inner in value]
    return redact_text(str(value))


def redact_text(text: str) -> str:
    """Return `text` without the secrets that texts usually carry."""
    text = _WEBHOOK_SECRET.sub(rf"\1{MASK}", text)
    text = _TOKEN.sub(rf"\1{MASK}", _BEARER.sub(rf"\1 {MASK}", text))
    if "=" in text:
        text = _QUERY_SECRET.sub(rf"\1{MASK}", text)
    return _URL_USER.sub(rf"\1{MASK}@", text) if "://" in text else text


_REROUTED = ("celery", "celery.redirected", "kombu", "uvicorn", "uvicorn.access", "uvicorn.error")
"""Loggers to which libraries attach their own handlers; ours is at the root."""
_QUIET = (
    *("httpx", "httpx2", "httpcore", "urllib3", "faiss.loader"),
    *("celery.worker.strategy", "celery.app.trace", "celery.worker.consumer.connection", "celery.apps.worker"),
)
"""Loggers that write a line per request or message, or at each start; our own lines record the same with ids."""


_service = "sluice"


def service() -> str:
    """Return the name under which this process logs."""
    return _service


def configure(service: str, settings: TelemetrySettings, stream: TextIO | OwnFile | None = None) -> None:
    """Send every log line of this process as `service` to `stream`: by default to the file that its supervisor keeps,
    always as JSON, else to stderr. May be called again."""
    global _service
    _service = service
    if stream is None and (path := os.environ.get(VARIABLE)):
        stream = OwnFile(Path(path))
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(allow=None),
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _named(service),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # a fork or a second call must see the new chain
    )
    handler: logging.Handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_formatter(settings, shared, as_json=isinstance(stream, OwnFile)))
    handler.addFilter(Repeats())
    _take_over(handler, getattr(logging, settings.log_level.upper()))


def _formatter(settings: TelemetrySettings, shared: list[Processor], *, as_json: bool) -> logging.Formatter:
    renderer: Processor = structlog.processors.JSONRenderer()
    if settings.log_format == "console" and not as_json:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            redacted,
            renderer,
        ],
    )


def _take_over(handler: logging.Handler, level: int) -> None:
    root = logging.getLogger()
    root.handlers[:] = [handler]
    _set_level(root, level)
    for name in _REROUTED:
        rerouted = logging.getLogger(name)
        rerouted.handlers.clear()
        rerouted.propagate = True
    for name in _QUIET:
        _set_level(logging.getLogger(name), max(level, logging.WARNING))
    logging.captureWarnings(True)


def _set_level(logger: logging.Logger, level: int) -> None:
    if logger.level != level:  # setting it goes through all loggers
        logger.setLevel(level)


def redacted(_: WrappedLogger, __: str, event_dict: EventDict) -> EventDict:
    """Mask secrets, and cut queries and fragments off web addresses, as they hold what people look for. The last step
    before rendering, so that tracebacks are covered too."""
    return {key: _without_queries(redact(value, key)) for key, value in event_dict.items()}


def _without_queries(value: Any) -> Any:
    match value:
        case str() if "://" in value:
            return _WEB_URL.sub(lambda found: found[0].partition("?")[0].partition("#")[0], value)
        case dict():
            return {key: _without_queries(inner) for key, inner in value.items()}
        case list():
            return [_without_queries(one) for one in value]
    return value


def _named(service: str) -> Processor:
    def add_service(_: WrappedLogger, __: str, event_dict: EventDict) -> EventDict:
        event_dict.setdefault("service", service)
        return event_dict

    return add_service


def get_logger(name: str) -> Any:
    """Return a structlog logger: `get_logger(__name__).info("page_crawled", url=url, status=200)`."""
    return structlog.stdlib.get_logger(name)


MOST_ALIKE = 10
"""Similar lines written within `WINDOW_SECONDS`; enough to see that it is not a single case."""
WINDOW_SECONDS = 60.0
_REMEMBERED = 256
"""Kinds of lines counted at once. Beyond it the one unseen for longest is forgotten, and counted anew."""
_NUMBERS = re.compile(r"[0-9a-f]{8,}|[0-9]+")
"""Ids, counts and durations, by which otherwise equal lines differ."""


class Repeats(logging.Filter):
    """Drops warnings and errors beyond `MOST_ALIKE` a minute that differ in numbers and ids at most.

    The first line of the next minute has the number of dropped ones in `left_out`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: OrderedDict[tuple[str, ...], tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is to be written."""
        if record.levelno < logging.WARNING:
            return True
        key, now = _alike(record), self._clock()
        since, count = self._seen.pop(key, (now, 0))
        if now - since >= WINDOW_SECONDS:
            if count > MOST_ALIKE and isinstance(record.msg, dict):
                record.msg = {**record.msg, "left_out": count - MOST_ALIKE}
            since, count = now, 0
        self._seen[key] = (since, count + 1)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return count < MOST_ALIKE


def _alike(record: logging.LogRecord) -> tuple[str, ...]:
    told: Any = record.msg
    if isinstance(told, dict):  # structlog's line
        return record.name, str(told.get("event")), _without_numbers(told.get("error", ""))
    return record.name, _without_numbers(told)


def _without_numbers(text: object) -> str:
    return _NUMBERS.sub("0", str(text)[:500])
