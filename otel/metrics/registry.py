"""Declares metrics, and adds up the figures of several processes through files.

`counter`, `gauge` and `histogram` register a metric; buckets are in seconds, or shares.

prometheus_client maps sparse files into memory: on a full disk the first write to a page without a block is a SIGBUS
(mmap(2)), which ends the process. Here every block is allocated before it is mapped (posix_fallocate(3)). Without
room the figures go to this process's own memory: they are missing from the sums until it is started again.

An exemplar is the trace and the run of one observation behind a figure: a point of a dashboard leads to them.
Processes that share a directory keep theirs in `exemplars_<process id>.json` there, as prometheus_client keeps none for
several processes. The file is written anew for a sample's first exemplar, else at most once in `WRITE_SECONDS`: it may
lack the latest. On a full disk exemplars are lost, and nothing else.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, values
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.samples import Exemplar

WRITE_SECONDS = 5.0
TRACE_ID, RUN_ID = "trace_id", "run_id"
"""The exemplars' labels; Grafana's source looks for the first. OpenMetrics allows 128 characters; these take 78."""

Key = tuple[str, frozenset[tuple[str, str]]]
"""A sample's name, and its labels."""


def current_exemplar(run_id: str | None = None) -> dict[str, str] | None:
    """Return the trace of the current span as an exemplar, with its run or the one given; None outside any span."""
    tracing = sys.modules.get("sluice.otel.context")  # without this import no span can be current
    if tracing is None:
        return None
    context = tracing.trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    run_id = run_id or tracing.current_run()
    return {TRACE_ID: f"{context.trace_id:032x}"} | ({RUN_ID: run_id} if run_id and len(run_id) <= 64 else {})


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
            (name, dict(labels), one.labels, one.value, one.timestamp)
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
        for name, labels, known, value, timestamp in rows:
            key = name, frozenset(labels.items())
            if key not in found or found[key].timestamp < timestamp:
                found[key] = Exemplar(known, value, timestamp)
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


FIRST_BYTES = 1 << 16
"""Size of a new file, as prometheus_client makes it."""
LONGEST_ENTRY_OVERHEAD = 64
"""Bytes of an entry beside its key: lengths, padding and two doubles are at most 28."""


class AllocatedDict(MmapedDict):
    """prometheus_client's dict of doubles over a file with all its blocks allocated."""

    _f: Any
    _m: Any
    _used: int
    _capacity: int

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        """Open or make the file; without room for it, memory that no other process sees."""
        super().__init__(filename if read_mode else _allocated(filename), read_mode)  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        needed = len(key.encode()) + LONGEST_ENTRY_OVERHEAD
        if self._used + needed > self._capacity:
            self._make_room(2 * self._capacity)
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def _make_room(self, capacity: int) -> None:
        try:
            os.posix_fallocate(self._f.fileno(), 0, capacity)
        except OSError:
            self._move_to_memory(capacity)

    def _move_to_memory(self, capacity: int) -> None:
        memory = open(_in_memory(capacity), "a+b")  # noqa: SIM115 - kept open as long as the file that it replaces
        mapped = mmap.mmap(memory.fileno(), capacity, access=mmap.ACCESS_WRITE)
        mapped[: self._used] = self._m[: self._used]
        self._m.close()
        self._f.close()
        self._f, self._m, self._capacity = memory, mapped, capacity


def _allocated(filename: str) -> str:
    """Return the name of the file, with all its blocks allocated, or of one in memory. Leaves no empty file behind."""
    try:
        with open(filename, "a+b") as file:
            size = os.fstat(file.fileno()).st_size
            try:
                os.posix_fallocate(file.fileno(), 0, max(size, FIRST_BYTES))
            except OSError:
                if size == 0:
                    os.unlink(filename)
                raise
    except OSError:
        return _in_memory(FIRST_BYTES)
    return filename


def _in_memory(size: int) -> str:
    """Return the name of a new file in memory. It lives as long as this process (memfd_create(2))."""
    descriptor = os.memfd_create("sluice-metrics", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    return f"/proc/self/fd/{descriptor}"


# Both before the first metric is made.
values.MmapedDict = AllocatedDict  # type: ignore[attr-defined]
use_shared_exemplars()

REGISTRY = CollectorRegistry()
LABELS: dict[str, tuple[str, ...]] = {}
"""The labels of every declared metric, by its name."""

MICROSECONDS_TO_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
MILLISECONDS_TO_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
MILLISECONDS_TO_MINUTES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)
MINUTES_TO_YEARS = (60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0, 7_776_000.0, 31_536_000.0)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class TracedHistogram(Histogram):
    """A histogram whose buckets know the trace of their latest observation."""

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Count an observation, with the current trace as exemplar unless another is given."""
        super().observe(amount, exemplar or current_exemplar())


def counter(declared: str) -> Counter:
    """Declare a figure that only grows; its name ends in `_total`. `declared` is like PromQL: `name{label,label}`."""
    name, labels = _declare(declared)
    return Counter(name, "", labels, registry=REGISTRY)


def gauge(declared: str) -> Gauge:
    """Declare a figure that one process measures for all: the newest value of a living process counts."""
    name, labels = _declare(declared)
    return Gauge(name, "", labels, registry=REGISTRY, multiprocess_mode="livemostrecent")


def histogram(declared: str, buckets: tuple[float, ...]) -> Histogram:
    """Declare a distribution, counted in `buckets`."""
    name, labels = _declare(declared)
    return TracedHistogram(name, "", labels, registry=REGISTRY, buckets=buckets)


def _declare(declared: str) -> tuple[str, tuple[str, ...]]:
    name, _, labels = declared.rstrip("}").partition("{")
    LABELS[name] = tuple(filter(None, labels.split(",")))
    return name, LABELS[name]
