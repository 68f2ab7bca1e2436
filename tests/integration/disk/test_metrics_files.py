"""Metrics on a full disk: the process goes on, and what had room stays in the sums."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sluice.otel.settings import fresh_metrics_dir
from tests.support.repository import REPOSITORY
from tests.support.small_disk import SmallDisk

COUNTS = """
import sys
from sluice.otel import metrics
from tests.support.metric import value_of
for number in range(int(sys.argv[1])):
    metrics.DEAD_LETTERS.labels(stage="crawl", reason=f"reason {number}").inc()
print(value_of(metrics.DEAD_LETTERS, stage="crawl", reason="reason 0"))
"""


def counts(folder: Path, labels: int, before: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", before + COUNTS, str(labels)],
        cwd=REPOSITORY,
        env=fresh_metrics_dir(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.strip()


def test_a_process_that_begins_on_a_full_disk_counts_for_itself(small_disk: SmallDisk) -> None:
    folder = small_disk.folder / "metrics"
    folder.mkdir()
    small_disk.fill()
    assert counts(folder, labels=10) == "1.0"
    assert list(folder.iterdir()) == []
    counts(folder, labels=0, before="from sluice.otel import metrics; metrics.negotiate_metrics()[0]")


def test_a_process_whose_disk_fills_up_goes_on_counting(small_disk: SmallDisk) -> None:
    fills = f"""
import os
from sluice.otel import metrics
metrics.DEAD_LETTERS.labels(stage="crawl", reason="reason 0")
with open({str(small_disk.folder / "filler")!r}, "ab") as filler:
    size = 1 << 20
    while size:
        try:
            os.write(filler.fileno(), b"x" * size)
        except OSError:
            size //= 2
"""
    assert counts(small_disk.folder / "metrics", labels=5_000, before=fills) == "1.0"
