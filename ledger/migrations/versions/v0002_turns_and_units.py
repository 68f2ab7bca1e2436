"""Version 2: events take turns by lane, stages can rest, and budgets count five units.

What is filled in for the rows that are there: an event's lane and priority come from its run; the open ones keep
their order, each lane in its own line; a run that had no ceiling for a unit goes on without one; time that was spent
becomes whole microseconds; a dead letter learns what its event and its run know.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NO_CEILING = 2**62
_BATCH = 500
"""Dead letters that are held in memory at once."""
_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_READY = "status = 'ready'"
_RUNS = """
    run_id kind corpus owner status query idempotency_key request_sha256 traceparent created_at deadline_at
    answer_due_at finished_at run_nanousd run_pages run_bytes run_tokens run_microseconds day_nanousd
    day_pages day_bytes day_tokens day_microseconds reserved_nanousd reserved_pages reserved_bytes
    reserved_tokens reserved_microseconds spent_nanousd spent_pages spent_bytes spent_tokens
    spent_microseconds settled_events dead_letters journal_offset generation
"""
_EVENTS = """
    seq id run_id kind queue status due_at epoch attempts deliveries deaths worker dedupe_key lane priority
    turn replay_traceparent reserve_nanousd reserve_pages reserve_bytes reserve_tokens reserve_microseconds
    reserved_on created_at settled_at why payload
"""
_DAYS = """
    day reserved_nanousd reserved_pages reserved_bytes reserved_tokens reserved_microseconds spent_nanousd
    spent_pages spent_bytes spent_tokens spent_microseconds
"""
_DEAD_LETTERS = """
    id event_id run_id cause_id corpus stage kind schema_version code_version idempotency_key reason
    exception_type fingerprint attempts deliveries first_seen last_seen worker traceparent sha256 replay_count
    status replayed_as replay_id operator note message stack payload
"""


def upgrade() -> None:
    """Bring version 1 to version 2."""
    _change_runs()
    _change_events()
    _change_days()
    _change_dead_letters()
    _add_tables()
    _line_up()


def _change_runs() -> None:
    ceilings = [f"{whose}_{unit}" for whose in ("run", "day") for unit in ("bytes", "tokens", "microseconds")]
    _add_counts("runs", *ceilings, "reserved_bytes", "reserved_tokens", "reserved_microseconds", "spent_microseconds")
    assigned = ", ".join(f"{name} = {_NO_CEILING}" for name in ceilings)
    spent = "CAST(round(CAST(spent_milliseconds * 1000 AS NUMERIC)) AS BIGINT)"
    op.execute(f"UPDATE runs SET {assigned}, spent_microseconds = {spent}")  # noqa: S608 - our own names
    with _batch("runs", _RUNS) as batch:
        batch.drop_column("spent_milliseconds")
        for name in ceilings:
            batch.alter_column(name, server_default=None, existing_type=sa.BigInteger, existing_nullable=False)
        for name in ("reserved_nanousd", "reserved_pages", "spent_nanousd", "spent_pages", "spent_bytes"):
            _default_to_nought(batch, name)
        for name in ("spent_tokens", "settled_events", "dead_letters"):
            _default_to_nought(batch, name)


def _change_events() -> None:
    with _batch("events", _EVENTS) as batch:
        batch.add_column(sa.Column("lane", sa.Text, nullable=False, server_default=""))
        batch.add_column(sa.Column("replay_traceparent", sa.Text))
        batch.add_column(sa.Column("priority", sa.Integer, nullable=False, server_default="0"))
        for name in ("turn", "reserve_bytes", "reserve_tokens", "reserve_microseconds"):
            batch.add_column(_count(name))
        for name in ("epoch", "attempts", "deliveries", "deaths", "reserve_nanousd", "reserve_pages"):
            _default_to_nought(batch, name)
    _partial_index("events_ready", "events", ["queue", "priority", "turn", "seq"], _READY)
    _partial_index("events_in_lane", "events", ["queue", "priority", "lane", "turn"], _READY)
    _partial_index("events_suspect", "events", ["queue"], f"{_READY} AND deaths > 0")


def _change_days() -> None:
    units = ("bytes", "tokens", "microseconds")
    with _batch("days", _DAYS) as batch:
        for name in [f"{sum_of}_{unit}" for sum_of in ("reserved", "spent") for unit in units]:
            batch.add_column(_count(name))
        for name in ("reserved_nanousd", "reserved_pages", "spent_nanousd", "spent_pages"):
            _default_to_nought(batch, name)


def _change_dead_letters() -> None:
    op.drop_index("dead_letters_alike", "dead_letters")
    op.drop_index("dead_letters_seen", "dead_letters")
    with _batch("dead_letters", _DEAD_LETTERS) as batch:
        for name in ("cause_id", "corpus", "idempotency_key", "replayed_as", "replay_id"):
            batch.add_column(sa.Column(name, sa.Text))
        batch.add_column(sa.Column("schema_version", sa.Integer))
        batch.add_column(sa.Column("code_version", sa.Text, nullable=False, server_default=""))
        for name in ("attempts", "deliveries", "replay_count"):
            _default_to_nought(batch, name)
    op.create_index("dead_letters_seen", "dead_letters", ["status", "last_seen", "id"])
    op.create_index("dead_letters_order", "dead_letters", ["status", "id"])
    op.create_index("dead_letters_alike", "dead_letters", ["status", "fingerprint", "id", "first_seen", "last_seen"])
    op.create_index("dead_letters_replayed", "dead_letters", ["replay_id", "status"])
    _tell_dead_letters()


_LETTERS = sa.text(
    "SELECT letter.id, event.dedupe_key, event.payload, run.corpus FROM dead_letters AS letter"
    " JOIN events AS event ON event.id = letter.event_id JOIN runs AS run ON run.run_id = letter.run_id"
    " WHERE letter.id > :after ORDER BY letter.id LIMIT :most"
)
_TELL = sa.text(
    "UPDATE dead_letters SET cause_id = :cause_id, corpus = :corpus, schema_version = :schema_version,"
    " idempotency_key = :idempotency_key WHERE id = :id"
)


def _tell_dead_letters() -> None:
    """Write into each dead letter what its event's row and its run know of it."""
    connection, after = op.get_bind(), ""
    while some := connection.execute(_LETTERS, {"after": after, "most": _BATCH}).all():
        connection.execute(_TELL, [_facts_of(row) for row in some])
        after = some[-1].id


def _facts_of(row: Any) -> dict[str, Any]:
    envelope = _envelope(row.payload)
    cause, version = envelope.get("cause_id"), envelope.get("version")
    return {
        "id": row.id,
        "cause_id": cause if isinstance(cause, str) else None,
        "corpus": row.corpus,
        "schema_version": version if isinstance(version, int) else None,
        "idempotency_key": row.dedupe_key,
    }


def _envelope(payload: str) -> dict[str, Any]:
    try:
        envelope = json.loads(payload)
    except ValueError:
        return {}
    return envelope if isinstance(envelope, dict) else {}


def _add_tables() -> None:
    op.create_table(
        "pauses",
        sa.Column("stage", sa.Text, primary_key=True),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("until", sa.Float),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("operator", sa.Text),
        _count("probes"),
    )
    _add_tables_of_dead_letters()


def _add_tables_of_dead_letters() -> None:
    op.create_table(
        "dead_letter_payloads",
        sa.Column("seq", _ROW_ID, primary_key=True),
        sa.Column("letter_id", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("operator", sa.Text, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
    )
    op.create_index("ix_dead_letter_payloads_letter_id", "dead_letter_payloads", ["letter_id"])
    op.create_table(
        "replays",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("filter", sa.Text, nullable=False),
        sa.Column("per_second", sa.Float, nullable=False),
        sa.Column("force", sa.Integer, nullable=False, server_default="0"),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("why", sa.Text),
        sa.Column("operator", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("updated_at", sa.Float, nullable=False),
        *(_count(name) for name in ("total", "replayed")),
        sa.Column("skips", sa.Text, nullable=False, server_default="{}"),
        sa.Column("position", sa.Text, nullable=False, server_default=""),
    )
    op.create_index("replays_status", "replays", ["status"])


def _line_up() -> None:
    """Give every event its lane, and the open ones their turns: in order of age, each lane from nought."""
    op.execute(
        "UPDATE events SET priority = CASE run.kind WHEN 'gate' THEN 0 ELSE 1 END,"
        " lane = CASE run.owner WHEN 'local' THEN 'corpus:' || run.corpus ELSE 'key:' || run.owner END"
        " FROM runs AS run WHERE run.run_id = events.run_id"
    )
    op.execute(
        "UPDATE events SET turn = line.place FROM"
        " (SELECT seq, row_number() OVER (PARTITION BY queue, priority, lane ORDER BY seq) - 1 AS place"
        " FROM events WHERE due_at IS NOT NULL AND queue IS NOT NULL) AS line WHERE line.seq = events.seq"
    )


def _batch(table: str, order: str) -> AbstractContextManager[Any]:
    """Changes to a table. SQLite can only write it anew: its columns then stand in `order`, with the long ones last."""
    if op.get_bind().dialect.name == "sqlite":
        return op.batch_alter_table(table, recreate="always", partial_reordering=[tuple(order.split())])
    return op.batch_alter_table(table)


def _count(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


def _add_counts(table: str, *names: str) -> None:
    for name in names:
        op.add_column(table, _count(name))


def _default_to_nought(batch: Any, name: str) -> None:
    batch.alter_column(name, server_default="0", existing_type=sa.BigInteger, existing_nullable=False)


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)
