"""`sluice status`, `logs` and `down`: what they print for people and programs, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from sluice.cli.connection import Record
from sluice.cli.main import app
from sluice.cli.operate import status as status_command
from sluice.contracts.api import HealthCheck
from sluice.contracts.event import QUEUES
from sluice.contracts.operations.overview import OpenRun, Overview, Spending, StageMinute, StageNow
from sluice.workers.supervisor.process_table import ProcessTable
from tests.support.repository import REPOSITORY

Sluice = Callable[..., Result]
GOLDEN = REPOSITORY / "tests" / "golden" / "cli"
NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
REWRITE = "SLUICE_REWRITE_GOLDEN" in os.environ


@pytest.fixture
def sluice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TZ", "UTC")
    return lambda *arguments: CliRunner().invoke(app, list(arguments), prog_name="sluice")


def golden(name: str, text: str) -> str:
    """The contract of `--json`, as it stands in its file."""
    if REWRITE:
        (GOLDEN / name).write_text(text)
    return (GOLDEN / name).read_text()


def overview(**changed: Any) -> Overview:
    minutes = tuple(
        StageMinute(at=NOW.replace(second=0) - timedelta(minutes=ago), entered=3, handled=ago, failed=1, parked=1)
        for ago in (50, 20, 1)
    )
    stages = [
        StageNow(
            stage=stage,
            ready=int(stage == "crawl") * 12,
            claimed=1,
            waiting=0,
            oldest_ready_seconds=75.0 if stage == "crawl" else 0.0,
            paused_because="night" if stage == "crawl" else None,
            paused_by="ana" if stage == "crawl" else None,
            workers=4,
            workers_wanted=8 if stage == "crawl" else 4,
            is_scaled_here=True,
            minutes=minutes if stage == "crawl" else (),
        )
        for stage in QUEUES
    ]
    facts: dict[str, Any] = {
        "at": NOW,
        "ok": True,
        "version": "0.3.0",
        "stages": tuple(stages),
        "checks": {"disk": HealthCheck(ok=True, facts={"free_bytes": 12_340_000_000})},
        "letters": {"exhausted": 8, "policy": 4},
        "letters_today": 3,
        "oldest_runs": (
            OpenRun(
                run_id="run_1", kind="gate", corpus="docs", query="who\x1b[2J?", created_at=NOW - timedelta(hours=2)
            ),
        ),
        "spending": (Spending(unit="usd", used=0.12, ceiling=5.0), Spending(unit="tokens", used=9.0)),
        "generations": {"docs": "g00000001"},
        "last_backup_at": None,
    }
    return Overview(**{**facts, **changed})


class Client:
    """Answers as the instance would, or does not."""

    def __init__(self, told: Overview) -> None:
        self._told = told

    def overview(self) -> Any:
        return json.loads(self._told.model_dump_json(), object_hook=Record)


def shown(told: Overview, **options: Any) -> Any:
    return status_command.status.__wrapped__(Client(told), **options)  # type: ignore[attr-defined]


def test_the_json_of_status_is_the_overview_as_its_golden_file_has_it() -> None:
    found = shown(overview())
    text = json.dumps(found.value, indent=2) + "\n"
    assert golden("status.json", text) == text
    Overview.model_validate_json(text)


def test_status_ends_with_zero_one_or_three(sluice: Sluice) -> None:
    assert shown(overview()).exit_code == 0
    assert shown(overview(ok=False)).exit_code == 1
    gone = sluice("--url", "http://127.0.0.1:9", "status")
    assert (gone.exit_code, gone.output) == (
        3,
        "no instance answers at http://127.0.0.1:9; start it with `sluice up`\n",
    )
    told = json.loads(sluice("--url", "http://127.0.0.1:9", "status", "--json").stdout)
    assert told["error"] == "not_running"


def test_status_fits_a_terminal_of_eighty_columns_and_says_what_matters() -> None:
    ill = overview(
        ok=False,
        checks={"workers": HealthCheck(ok=False, detail="no worker for embed")},
        missing=("broker",),
        last_backup_at=datetime.now(UTC) - timedelta(hours=3),
        last_backup="/backups/monday.tar",
    )
    console = Console(width=80, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(status_command.drawing_of(Client(ill).overview()))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    told = "\n".join(line.rstrip() for line in lines)
    assert "…" not in told
    crawl = next(line for line in lines if line.startswith("crawl "))
    assert crawl.split()[:10] == ["crawl", "4/8", "12", "1", "0", "1.2", "min", "3", "1", "3"]
    for part in (
        *("ill", "ill: workers: no worker for embed", "could not be read: broker", "paused: crawl by ana: night"),
        *(
            "dead letters: 8 exhausted, 4 policy; 3 today",
            "used today: 0.12 of 5 usd",
            "3.0 h ago, /backups/monday.tar",
        ),
        "open for 2.0 h: run_1 gate who",
    ):
        assert part in told, part
    assert "\x1b[2J" not in told


def test_a_watch_that_is_no_terminal_gets_a_line_a_second() -> None:
    line = status_command.line_of(Client(overview()).overview())
    assert line.startswith(f"{NOW.astimezone():%H:%M:%S} well  ready 12 claimed 8 waiting 0 oldest 1.2 min")
    assert "crawl 4/8" in line
    assert "\n" not in line


def test_bars_show_the_hour_and_nothing_where_nothing_was() -> None:
    told = Client(overview()).overview()
    assert status_command.bars_of(told.stages[2].minutes, told.at) == "▁█▁▁▁▁▃▁▁▁"
    assert status_command.bars_of((), told.at) == ""


# -- logs


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "logs"
    folder.mkdir(parents=True)

    def line(second: int, **facts: object) -> str:
        at = f"2026-01-01T12:00:{second:02}.000000Z"
        return json.dumps({**facts, "level": "info", "timestamp": at, "service": "sluice-x"}) + "\n"

    handled = {"event": "event_handled", "outcome": "Done", "duration_seconds": 0.5}
    (folder / "crawl-1.log").write_text(
        line(1, **handled, kind="CrawlDirected", url="https://a.example/", stage="crawl", run_id="run_1")
        + line(4, **handled, kind="CrawlDirected", url="https://b.example/", stage="crawl", run_id="run_2")
        + "Fatal Python error: \x1b[31mSegmentation fault\n"
    )
    (folder / "gate+query-1.log").write_text(
        line(2, **handled, kind="CoverageProbed", stage="gate", plan="skip", run_id="run_1")
        + line(3, event="worker_ready", stages=["gate", "query"])
    )
    return folder


@pytest.mark.usefixtures("logs")
def test_a_run_is_followed_across_processes_in_order_of_time(sluice: Sluice) -> None:
    found = sluice("logs", "run_1").output.splitlines()
    assert [line[9:] for line in found] == [
        "crawl   fetched https://a.example/ in .50 s  run_1",
        "gate    decided: skip in .50 s  run_1",
    ]
    assert sluice("logs", "run_3").output == ""


@pytest.mark.usefixtures("logs")
def test_a_stage_has_its_own_lines_and_what_its_processes_said_besides(sluice: Sluice) -> None:
    found = sluice("logs", "--stage", "crawl").output.splitlines()
    assert len(found) == 3
    assert found[-1] == "Fatal Python error: �[31mSegmentation fault"
    assert "worker ready" in sluice("logs", "--stage", "query").output
    assert len(sluice("logs", "--limit", "1").output.splitlines()) == 1
    assert len(sluice("logs", "--since", "2026-01-01T12:00:03").output.splitlines()) == 3


@pytest.mark.usefixtures("logs")
def test_the_json_of_logs_is_each_line_as_it_was_written(sluice: Sluice) -> None:
    told = sluice("logs", "--json").stdout
    assert golden("logs.jsonl", told) == told
    assert [json.loads(line)["event"] for line in told.splitlines()].count("event_handled") == 3


def test_without_files_it_says_who_writes_them(sluice: Sluice) -> None:
    result = sluice("logs")
    assert result.exit_code == 3
    assert "`sluice up` writes it" in result.output


# -- down


STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
)
OBEDIENT = "import time; print('hears', flush=True); time.sleep(60)"


@pytest.fixture
def started() -> Iterator[Callable[[str], int]]:
    begun: list[subprocess.Popen[bytes]] = []

    def start(program: str) -> int:
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        begun.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    yield start
    for process in begun:
        process.kill()
        process.wait()


def table_of(tmp_path: Path, **processes: int) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    ProcessTable(folder).write(processes)
    # it is this process that wrote it, and it is no `sluice up`
    started = json.loads((folder / "processes.started.json").read_text())
    (folder / "processes.started.json").write_text(json.dumps({**started, "supervisor": None}))


def test_down_ends_what_is_in_the_table(sluice: Sluice, tmp_path: Path, started: Callable[[str], int]) -> None:
    first, second = started(OBEDIENT), started(OBEDIENT)
    table_of(tmp_path, **{"crawl-1": first, "api": second})
    result = sluice("down", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ended"], told["left"]) == (0, {"crawl-1": first, "api": second}, {})
    again = sluice("down")
    assert (again.exit_code, again.output) == (3, f"no instance runs on {tmp_path / 'data'}\n")
    shape = json.dumps({name: sorted(value) if isinstance(value, dict) else 0 for name, value in told.items()}) + "\n"
    assert golden("down.json", shape) == shape


def test_down_names_what_did_not_end_and_now_kills_it(
    sluice: Sluice, tmp_path: Path, started: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice.cli.instance import down

    monkeypatch.setattr(down, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(down, "AT_ONCE_SECONDS", 0.3)
    deaf = started(STUBBORN)
    table_of(tmp_path, **{"chunk-1": deaf})
    left = sluice("down")
    assert left.exit_code == 1
    assert f"still there: chunk-1 ({deaf})" in left.output
    assert sluice("down", "--now").exit_code == 0


def test_down_leaves_a_process_alone_that_only_has_the_id_of_one(
    sluice: Sluice, tmp_path: Path, started: Callable[[str], int]
) -> None:
    stranger = started(OBEDIENT)
    table_of(tmp_path, **{"crawl-1": stranger})
    path = tmp_path / "data" / "processes.started.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "started": {str(stranger): 1}, "supervisor": [stranger, 1]}))
    assert sluice("down").exit_code == 3
    os.kill(stranger, 0)
    path.write_text(json.dumps({**told, "boot": "another"}))
    assert sluice("down").exit_code == 3


def test_the_table_knows_the_supervisor_that_wrote_it(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path)
    table.write({"api": os.getpid()})
    assert table.supervisor() == os.getpid()
    table.remove()
    assert table.supervisor() is None
