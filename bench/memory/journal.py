"""What an append to a journal costs, flushed, and a reading of 10,000 records: `python -m bench.memory.journal`.

Beside it, in the same run, the floor: a bare write of the same line with its flush. Records are of some 2 KB, as an
iteration with three errors and five files is.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from sluice.contracts.memory.model import (
    ErrorEntry,
    ErrorType,
    FileAction,
    FileTouched,
    IterationOutcome,
    IterationRecord,
)
from sluice.memory.journal import Journal, JournalEntry
from sluice.memory.journal.file import state_sha256

RECORDS = 10_000
APPENDS = 300
FEATURE = "auth"


def measure_journal(records: int = RECORDS, appends: int = APPENDS, folder: Path | None = None) -> dict[str, float]:
    """Milliseconds, by what was done. The last `appends` of the records are appended one by one, the rest at once."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        path = Path(scratch)
        journal = Journal(path, FEATURE)
        made = [JournalEntry.new(_record(number)) for number in range(1, records + 1)]
        journal.append(made[:-appends])
        appended = [_milliseconds(partial(journal.append, [one])) for one in made[-appends:]]
        bare = _bare_writes(path / "bare", [f"{one.to_json_line()}\n".encode() for one in made[-appends:]])
        reading = [_milliseconds(journal.read) for _ in range(100)]
        cold = [_cold(path) for _ in range(5)]
        return {
            "bytes of a line": float(len(made[0].to_json_line()) + 1),
            "append, p50 ms": statistics.median(appended),
            "append, p95 ms": _p95(appended),
            "bare write and flush, p50 ms": statistics.median(bare),
            "bare write and flush, p95 ms": _p95(bare),
            f"read {records:,} in a new process, ms": statistics.median(wall for wall, _ in cold),
            "the same, ms of CPU": statistics.median(cpu for _, cpu in cold),
            "read again, ms": statistics.median(reading),
            "hash of the state, ms": _milliseconds(lambda: state_sha256(journal.read())),
        }


def _record(number: int) -> IterationRecord:
    error = ErrorEntry(
        message="TypeError: Cannot read property 'user' of undefined, in the middleware of the login form " * 2,
        error_type=ErrorType.RUNTIME,
        file_path=f"src/middleware/auth{number % 40}.ts",
        line=number,
        tool="node",
    )
    return IterationRecord(
        iteration_number=number,
        task_id=number // 10,
        task_title="Build the login form",
        feature=FEATURE,
        discipline="frontend",
        timestamp=datetime(2026, 2, 7, tzinfo=UTC),
        outcome=IterationOutcome.FAILURE,
        summary="The middleware returns a wrong shape and the form shows nothing. " * 8,
        errors=(error,) * 3,
        files_touched=tuple(FileTouched(path=f"src/forms/f{at}.tsx", action=FileAction.MODIFIED) for at in range(5)),
        tokens_used=45_000,
        duration_ms=120_000,
        source_id=f"{number:064x}",
    )


def _bare_writes(path: Path, lines: list[bytes]) -> list[float]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        return [_milliseconds(lambda: (os.write(descriptor, line), os.fdatasync(descriptor))) for line in lines]  # noqa: B023
    finally:
        os.close(descriptor)


def _cold(folder: Path) -> tuple[float, float]:
    """In a process that has imported everything and read nothing: milliseconds by the clock and of CPU."""
    program = (
        "import sys, time; from pathlib import Path; from sluice.memory.journal import Journal;"
        f"journal = Journal(Path(sys.argv[1]), '{FEATURE}'); wall, cpu = time.perf_counter(), time.process_time();"
        "journal.read(); print(1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu))"
    )
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=True)
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def _milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - started)


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


if __name__ == "__main__":
    for measured, value in measure_journal().items():
        print(f"{measured:<40} {value:12,.2f}")
