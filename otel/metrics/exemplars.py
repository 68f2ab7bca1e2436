"""Exemplars: the trace of one observation behind a figure, so that a dashboard links a point to its trace.

Processes that share a directory keep theirs in `exemplars_<process id>.json` there, as prometheus_client keeps none for
several processes. The file is written anew for a sample's first exemplar, else at most once in `WRITE_SECONDS`: it may
lack the latest. On a full disk exemplars are lost, and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from prometheus_client import Metric, values
from prometheus_client.samples import Exemplar

WRITE_SECONDS = 5.0
TRACE_ID = "trace_id"
"""The exemplars' label, which Grafana's data source looks for."""

Key = tuple[str, frozenset[tuple[str, str]]]
"""A sample's name, and its labels."""


def current_exemplar() -> dict[str, str] | None:
    """Return the trace of the current span as an exemplar; None outside any span."""
    trace = sys.modules.get("opentelemetry.trace")  # without this import no span can be current
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    return {TRACE_ID: f"{context.trace_id:032x}"} if context.is_valid else None


def use_shared_exemplars() -> None:
    """Make prometheus_client keep exemplars where processes share a directory. Call before the first metric is made."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if folder:
        values.ValueClass = _with_exemplars(values.ValueClass, ExemplarFile(Path(folder)))


class ExemplarFile:
    """The latest exemplar of each sample of this process, and their file. A change needs no lock, as one assignment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begin()

    def _begin(self) -> None:
        self._process_id = os.getpid()
        self._writing = threading.Lock()
        self._written_at = 0.0
        self._kept: dict[Key, Exemplar] = {}

    def put(self, key: Key, exemplar: Exemplar) -> None:
        """Keep the exemplar as the sample's latest."""
        if self._process_id != os.getpid():
            self._begin()
        is_first = key not in self._kept
        self._kept[key] = exemplar
        now = time.monotonic()
        if (is_first or now - self._written_at >= WRITE_SECONDS) and self._writing.acquire(blocking=False):
            try:
                self._written_at = now
                self._write()
            finally:
                self._writing.release()

    def _write(self) -> None:
        rows = [
            (name, dict(labels), one.labels[TRACE_ID], one.value, one.timestamp)
            for (name, labels), one in list(self._kept.items())
        ]
        path = exemplar_file(self._folder, self._process_id)
        beside = path.with_suffix(".new")
        try:
            beside.write_text(json.dumps(rows))
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)


def exemplar_file(folder: Path, process_id: int) -> Path:
    """Return the path of a process's exemplars."""
    return folder / f"exemplars_{process_id}.json"


def read_exemplars(folder: Path) -> dict[Key, Exemplar]:
    """Return the latest exemplar of each sample, of all processes."""
    found: dict[Key, Exemplar] = {}
    for path in folder.glob("exemplars_*.json"):
        try:
            rows = json.loads(path.read_text())
        except (OSError, ValueError):
            continue  # its process has just ended
        for name, labels, trace_id, value, timestamp in rows:
            key = name, frozenset(labels.items())
            if key not in found or found[key].timestamp < timestamp:
                found[key] = Exemplar({TRACE_ID: trace_id}, value, timestamp)
    return found


def add_exemplars(family: Metric, exemplars: dict[Key, Exemplar]) -> None:
    """Give the samples of a counter or a histogram their exemplars."""
    if family.type in ("counter", "histogram"):
        family.samples = [
            sample._replace(exemplar=exemplars.get((sample.name, frozenset(sample.labels.items()))))
            for sample in family.samples
        ]


def _with_exemplars(value_class: Any, file: ExemplarFile) -> Any:
    class ValueWithExemplar(value_class):  # type: ignore[misc]
        """A value in a shared file whose exemplar is kept beside."""

        def set_exemplar(self, exemplar: Exemplar) -> None:
            _, _, name, labels, label_values, *_ = self._params
            file.put((name, frozenset(zip(labels, label_values, strict=True))), exemplar)

    return ValueWithExemplar
