"""A ledger of version 1, as its first release wrote it, with work in it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from contracts.event import Event, encode
from contracts.gate import GateRequested
from ledger.database import Database
from ledger.reservations import NO_CEILING
from tests.support.ledger_story import page
from tests.support.repository import GOLDEN

NOW = datetime(2031, 5, 6, 12, tzinfo=UTC)


def old_ledger_in(folder: Path) -> Database:
    """A ledger of version 1 with work in it, in a file."""
    database = Database(f"sqlite:///{folder / 'ledger.sqlite'}")
    with database.installing() as connection:
        install_version_1(connection)
        fill(connection)
    return database


def install_version_1(connection: Connection) -> None:
    """Make the empty tables of version 1."""
    for statement in (GOLDEN / "ledger" / f"ledger-v1.{connection.dialect.name}.sql").read_text().split(";\n"):
        if statement:
            connection.execute(text(statement))


def fill(connection: Connection) -> None:
    """Two lanes of crawl events and a question, all ready; a reservation, and a dead letter with its run."""
    connection.execute(text("INSERT INTO schema_version (version) VALUES (1)"))
    for run, kind, owner in (("run_a", "crawl", "local"), ("run_b", "crawl", "somebody"), ("run_q", "gate", "local")):
        _insert(connection, "runs", **_run(run, kind, owner))
    for name, run, status in (
        ("evt_a1", "run_a", "ready"),
        ("evt_a2", "run_a", "ready"),
        ("evt_a3", "run_a", "waiting"),
        ("evt_b1", "run_b", "ready"),
        ("evt_dead", "run_a", "dead"),
        ("evt_old", "run_b", "settled"),
    ):
        _insert(connection, "events", **_event(Event.of(page(), run_id=run, corpus="docs"), name, status))
    _insert(
        connection,
        "events",
        **_event(Event.of(GateRequested(query="?"), run_id="run_q", corpus="docs"), "evt_ask", "ready"),
    )
    _insert(connection, "days", day="2031-05-06", reserved_nanousd=0, reserved_pages=1, spent_nanousd=0, spent_pages=3)
    _insert(connection, "dead_letters", **_letter())


def _run(run_id: str, kind: str, owner: str) -> dict[str, Any]:
    noughts = ("reserved_nanousd", "spent_nanousd", "spent_bytes", "spent_tokens", "settled_events", "dead_letters")
    return {
        "run_id": run_id,
        "kind": kind,
        "corpus": "docs",
        "owner": owner,
        "status": "open",
        "request_sha256": "0" * 64,
        "created_at": NOW.timestamp(),
        "run_nanousd": NO_CEILING,
        "run_pages": 10,
        "day_nanousd": NO_CEILING,
        "day_pages": 1_000,
        "reserved_pages": 1,
        "spent_pages": 2,
        "spent_milliseconds": 12.3456,
        **dict.fromkeys(noughts, 0),
    }


def _event(made: Event, name: str, status: str) -> dict[str, Any]:
    due_at = {"ready": NOW.timestamp() - 1, "waiting": NOW.timestamp() + 60}
    return {
        "id": name,
        "run_id": made.run_id,
        "kind": made.kind,
        "queue": made.queue,
        "status": status,
        "due_at": due_at.get(status),
        "dedupe_key": "key-1" if status == "dead" else None,
        "reserve_pages": 1,
        "reserved_on": "2031-05-06" if name == "evt_a1" else None,
        "created_at": NOW.timestamp(),
        "payload": encode(made.model_copy(update={"id": name, "cause_id": "evt_cause"})).decode(),
        **dict.fromkeys(("epoch", "attempts", "deliveries", "deaths", "reserve_nanousd"), 0),
    }


def _letter() -> dict[str, Any]:
    texts = ("stage", "exception_type", "message", "stack", "fingerprint", "sha256")
    return {
        "id": "dead_1",
        "event_id": "evt_dead",
        "run_id": "run_a",
        "reason": "policy",
        "status": "parked",
        "payload": b"{}",
        **dict.fromkeys(texts, "x"),
        **dict.fromkeys(("attempts", "deliveries", "replay_count"), 1),
        **dict.fromkeys(("first_seen", "last_seen"), NOW.timestamp()),
    }


def _insert(connection: Connection, table: str, **row: Any) -> None:
    names = ", ".join(row)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in row)})"), row)
