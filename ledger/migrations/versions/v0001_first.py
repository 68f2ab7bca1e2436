"""Version 1: the first schema. New ledgers are made from `ledger.tables`; this is where the steps begin."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make every table of version 1."""
    op.create_table("schema_version", sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))
    _make_runs()
    _make_events()
    op.create_table("days", _text("day", primary_key=True), *_counts(*_MONEY_AND_PAGES))
    _make_dead_letters()
    _make_the_rest()


_MONEY_AND_PAGES = ("reserved_nanousd", "reserved_pages", "spent_nanousd", "spent_pages")


def _make_runs() -> None:
    op.create_table(
        "runs",
        _text("run_id", primary_key=True),
        *_texts("kind", "corpus", "owner", "status"),
        *_texts("query", "idempotency_key", nullable=True),
        _text("request_sha256"),
        _text("traceparent", nullable=True),
        _moment("created_at"),
        *(_moment(name, nullable=True) for name in ("deadline_at", "answer_due_at", "finished_at")),
        *_counts("run_nanousd", "run_pages", "day_nanousd", "day_pages", *_MONEY_AND_PAGES),
        *_counts("spent_bytes", "spent_tokens"),
        sa.Column("spent_milliseconds", sa.Float, nullable=False),
        *_counts("settled_events", "dead_letters"),
        sa.Column("journal_offset", sa.BigInteger),
        _text("generation", nullable=True),
    )
    op.create_index("runs_idempotency", "runs", ["owner", "idempotency_key"], unique=True)
    _partial_index("runs_answer_due", "runs", ["answer_due_at"], "answer_due_at IS NOT NULL")


def _make_events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", _ROW_ID, primary_key=True),
        _text("id", unique=True),
        *_texts("run_id", "kind"),
        _text("queue", nullable=True),
        _text("status"),
        _moment("due_at", nullable=True),
        *_counts("epoch", "attempts", "deliveries", "deaths"),
        *_texts("worker", "dedupe_key", nullable=True),
        *_counts("reserve_nanousd", "reserve_pages"),
        _text("reserved_on", nullable=True),
        _moment("created_at"),
        _moment("settled_at", nullable=True),
        _text("why", nullable=True),
        _text("payload"),
    )
    op.create_index("events_of_run", "events", ["run_id", "seq"])
    op.create_index("events_of_kind", "events", ["run_id", "kind"])
    _partial_index("events_open", "events", ["run_id", "due_at"], "due_at IS NOT NULL")
    _partial_index("events_due", "events", ["status", "due_at", "queue"], "due_at IS NOT NULL")
    _partial_index("events_dedupe", "events", ["run_id", "dedupe_key"], "dedupe_key IS NOT NULL", unique=True)


def _make_dead_letters() -> None:
    op.create_table(
        "dead_letters",
        _text("id", primary_key=True),
        _text("event_id", nullable=True, unique=True),
        _text("run_id", nullable=True),
        _text("stage"),
        _text("kind", nullable=True),
        *_texts("reason", "exception_type", "message", "stack", "fingerprint"),
        *_counts("attempts", "deliveries"),
        _moment("first_seen"),
        _moment("last_seen"),
        *_texts("worker", "traceparent", nullable=True),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        _text("sha256"),
        *_counts("replay_count"),
        _text("status"),
        *_texts("operator", "note", nullable=True),
    )
    op.create_index("dead_letters_seen", "dead_letters", ["status", "last_seen"])
    op.create_index("dead_letters_of_run", "dead_letters", ["run_id"])
    op.create_index("dead_letters_alike", "dead_letters", ["fingerprint"])


def _make_the_rest() -> None:
    op.create_table(
        "operator_actions",
        sa.Column("seq", _ROW_ID, primary_key=True),
        _moment("at"),
        *_texts("operator", "action", "subject", "note"),
    )
    op.create_index("ix_operator_actions_subject", "operator_actions", ["subject"])
    op.create_table("leases", _text("name", primary_key=True), _text("holder"), _moment("until"))
    op.create_table(
        "api_keys",
        _text("id", primary_key=True),
        _text("hash", unique=True),
        *_texts("name", "role", "corpora"),
        _moment("created_at"),
        _moment("revoked_at", nullable=True),
    )


def _text(name: str, *, nullable: bool = False, primary_key: bool = False, unique: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=nullable, primary_key=primary_key, unique=unique or None)


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [_text(name, nullable=nullable) for name in names]


def _moment(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Float, nullable=nullable)


def _counts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def _partial_index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
