"""Log files: rotated by whoever writes, kept after a crash, read in order of time across processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.otel import log_files
from sluice.otel.log_files import VARIABLE, Tail, opened, parsed, read, rotate
from sluice.otel.story import is_of_the_story, story_of
from tests.support.repository import IMPORT_PATH

MANY = """
import os, sys, structlog
from sluice.otel import log_files, logs
from sluice.otel.settings import TelemetrySettings
log_files.MOST_BYTES, log_files._LOOK_SECONDS = 20_000, 0.0
logs.configure("sluice-crawl", TelemetrySettings(log_format="console"))
children = [os.fork() for _ in range(2)]
log = structlog.get_logger("test")
for number in range(150):
    log.info("written", number=number, by=sum(map(bool, children)), url="https://me:s3cret@example.org/?token=s3cret")
if all(children):
    [os.waitpid(one, 0) for one in children]
    print("last words", file=sys.stderr)
    sys.stderr.flush()
    os.kill(os.getpid(), 9)
"""


def line(event: str, at: datetime, **facts: object) -> bytes:
    told = {**facts, "event": event, "level": "info", "timestamp": at.isoformat().replace("+00:00", "Z")}
    return json.dumps(told).encode() + b"\n"


def test_processes_that_share_a_file_rotate_it_lose_no_line_and_leave_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "crawl-1.log"
    environment = {**os.environ, VARIABLE: str(path), "PYTHONPATH": IMPORT_PATH}
    output = opened(path)
    done = subprocess.run([sys.executable, "-c", MANY], env=environment, stdout=output, stderr=output, check=False)
    assert done.returncode == -9, "the crash is real"
    assert 1 < len(list(tmp_path.glob("crawl-1.log*"))) <= log_files.MOST_FILES
    found = [one.text for one in read(tmp_path)]
    told = [facts for one in found if (facts := parsed(one))]
    written = sorted((facts["by"], facts["number"]) for facts in told if facts["event"] == "written")
    assert written == sorted((by, number) for by in (0, 1, 1, 2) for number in range(150)), "of four processes"
    assert b"last words" in found
    assert b"s3cret" not in b"".join(found)
    assert path.stat().st_mode & 0o077 == 0


def test_the_oldest_file_goes_and_nobody_rotates_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MOST_BYTES", 10)
    path = tmp_path / "api.log"
    for number in range(15):
        path.write_text(f"line number {number}\n")
        rotate(path)
        rotate(path)
    kept = [one.read_text() for one in sorted(tmp_path.glob("api.log.*"), key=lambda one: int(one.suffix[1:]))]
    assert kept == [f"line number {number}\n" for number in range(14, 5, -1)]


def test_lines_of_all_processes_come_in_order_of_time_and_by_what_they_hold(tmp_path: Path) -> None:
    now = datetime.now(UTC) - timedelta(minutes=1)
    times = [now + timedelta(seconds=second) for second in range(6)]
    (tmp_path / "a-1.log.1").write_bytes(line("first", times[0]) + b"Traceback: run_2\n")
    (tmp_path / "a-1.log").write_bytes(line("fourth", times[3], run_id="run_2"))
    (tmp_path / "b-1.log").write_bytes(line("second", times[1], run_id="run_2") + line("third", times[2]))
    assert [(parsed(one.text) or {}).get("event") for one in read(tmp_path)] == [
        *("first", None, "second", "third", "fourth")
    ]
    assert [one.process for one in read(tmp_path, containing=b"run_2")] == ["a-1", "b-1", "a-1"]
    late = [(parsed(one.text) or {}).get("event") for one in read(tmp_path, since=times[2])]
    assert late == ["third", "fourth"]
    assert not [*read(tmp_path, since=now + timedelta(hours=1))]


def test_a_tail_goes_on_behind_a_rotation_and_gives_whole_lines(tmp_path: Path) -> None:
    path, tail = tmp_path / "a-1.log", Tail(tmp_path)
    path.write_bytes(b"before\n")
    tail.skip()
    with path.open("ab") as file:
        file.write(b"one\ntwo, not wh")
    assert [one.text for one in tail.lines()] == [b"one"]
    with path.open("ab") as file:
        file.write(b"ole\n")
    path.rename(tmp_path / "a-1.log.1")
    path.write_bytes(b"three\n")
    (tmp_path / "b-1.log").write_bytes(b"new\n")
    assert [one.text for one in tail.lines()] == [b"two, not whole", b"three", b"new"]
    assert not [*tail.lines()]


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (
            {"kind": "CrawlDirected", "url": "https://example.org/", "outcome": "Done", "duration_seconds": 0.361},
            "crawl   fetched https://example.org/ in .36 s  run_1",
        ),
        (
            {"kind": "CoverageProbed", "outcome": "Done", "duration_seconds": 1.2, "plan": "skip", "vetoes": ["off"]},
            "crawl   decided: skip (off) in 1.20 s  run_1",
        ),
        (
            {"kind": "PageRead", "outcome": "Retry", "duration_seconds": 0.0, "after_seconds": 2, "why": "\x1b[2Jaway"},
            "crawl   failed after .00 s, again in 2 s: PageRead:  [2Jaway  run_1",
        ),
    ],
)
def test_an_event_is_a_line_that_a_person_can_follow(facts: dict[str, object], told: str) -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    one = {**facts, "event": "event_handled", "stage": "crawl", "run_id": "run_1", "timestamp": at.isoformat()}
    assert is_of_the_story(one)
    assert story_of(one) == f"{at.astimezone():%H:%M:%S} {told}"


def test_the_story_leaves_out_what_is_usual_and_shows_what_is_not() -> None:
    assert not is_of_the_story({"event": "request", "level": "info", "service": "sluice-api"})
    warned = {"event": "settle_waits", "level": "warning", "service": "sluice-crawl", "error": "locked"}
    assert is_of_the_story(warned)
    assert story_of(warned) == "--:--:-- crawl   WARNING settle waits error=locked"


def test_reading_a_hundred_megabytes_for_one_run_takes_seconds(tmp_path: Path) -> None:
    other = line("event_handled", datetime.now(UTC), run_id="run_other", stage="crawl", padding="x" * 300)
    for name in ("a-1", "b-1"):
        (tmp_path / f"{name}.log").write_bytes(other * (25_000_000 // len(other)))
    (tmp_path / "c-1.log").write_bytes(line("event_handled", datetime.now(UTC), run_id="run_mine"))
    started = time.process_time()
    assert len([*read(tmp_path, containing=b"run_mine")]) == 1
    assert time.process_time() - started < 5
