"""The ledger's tables and their indices.

Two conventions keep every query of an event's life indexed and cheap:

- A row of `events` is *open* (ready, claimed or waiting) exactly while `due_at` is set: when it became ready,
  when its lease runs out, or when its next attempt is due. The partial indices on open rows hold nothing else,
  so their cost follows the work in hand and not the history.
- `seq` grows in commit order within a run, because whatever inserts an event holds the run's row first.

Moments are seconds since the epoch (UTC). Money is whole nano-USD and time whole microseconds: sums of floats would
drift across ceilings.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    and_,
    literal_column,
)

from sluice.ledger.schema.columns import ROW_ID, FreeText, amounts, counter

AnyRow = Any
"""A row whose columns are read by name."""

metadata = MetaData()

versions = Table("schema_version", metadata, Column("version", Integer, primary_key=True, autoincrement=False))

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("corpus", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("query", FreeText),
    Column("idempotency_key", FreeText),
    Column("request_sha256", Text, nullable=False),
    Column("traceparent", Text),
    Column("created_at", Float, nullable=False),
    Column("deadline_at", Float),
    Column("answer_due_at", Float),  # the deadline of a gate run, for as long as no answer is directed
    Column("finished_at", Float),
    *amounts("run", kept=True),  # the run's ceilings
    *amounts("day", kept=True),  # those of the day, as they were when the run began
    *amounts("reserved"),
    *amounts("spent"),
    counter("settled_events"),
    counter("dead_letters"),
    Column("journal_offset", BigInteger),
    Column("generation", Text),
    Index("runs_idempotency", "owner", "idempotency_key", unique=True),
    implicit_returning=False,
)
Index(
    "runs_answer_due",
    runs.c.answer_due_at,
    sqlite_where=runs.c.answer_due_at.is_not(None),
    postgresql_where=runs.c.answer_due_at.is_not(None),
)

events = Table(
    "events",
    metadata,
    Column("seq", ROW_ID, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("run_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("queue", Text),
    Column("status", Text, nullable=False),
    Column("due_at", Float),
    counter("epoch"),
    counter("attempts"),
    counter("deliveries"),
    counter("deaths"),
    Column("worker", Text),
    Column("dedupe_key", FreeText),
    Column("lane", Text, nullable=False, server_default=""),  # the tenant queue: see `fair_queue`
    Column("priority", Integer, nullable=False, server_default="0"),  # the lower goes first
    counter("turn"),
    Column("replay_traceparent", Text),  # the span of the operator who replayed it
    *amounts("reserve"),
    Column("reserved_on", Text),  # the UTC day that carries the reservation, held while the event is open
    Column("created_at", Float, nullable=False),
    Column("settled_at", Float),
    Column("why", FreeText),  # of the last retry or discard
    Column("payload", Text, nullable=False),
    Index("events_of_run", "run_id", "seq"),
    Index("events_of_kind", "run_id", "kind"),
    implicit_returning=False,
)
_IS_OPEN, _IS_KEYED = events.c.due_at.is_not(None), events.c.dedupe_key.is_not(None)
IS_OPEN = events.c.due_at >= 0
"""How a query says *open*: a range, which makes SQLite prefer the index of open events to that of all of a run."""
Index("events_open", events.c.run_id, events.c.due_at, sqlite_where=_IS_OPEN, postgresql_where=_IS_OPEN)
Index("events_due", events.c.status, events.c.due_at, events.c.queue, sqlite_where=_IS_OPEN, postgresql_where=_IS_OPEN)
IS_READY = events.c.status == literal_column("'ready'")
"""How a query says *ready*: written out, so that SQLite knows the partial indices to fit."""
IS_SUSPECT = and_(IS_READY, events.c.deaths > literal_column("0"))
"""Ready, and a worker died on it."""
Index(
    "events_ready",
    events.c.queue,
    events.c.priority,
    events.c.turn,
    events.c.seq,
    sqlite_where=IS_READY,
    postgresql_where=IS_READY,
)
Index(
    "events_in_lane",
    events.c.queue,
    events.c.priority,
    events.c.lane,
    events.c.turn,
    sqlite_where=IS_READY,
    postgresql_where=IS_READY,
)
Index("events_suspect", events.c.queue, sqlite_where=IS_SUSPECT, postgresql_where=IS_SUSPECT)
Index(
    "events_dedupe",
    events.c.run_id,
    events.c.dedupe_key,
    unique=True,
    sqlite_where=_IS_KEYED,
    postgresql_where=_IS_KEYED,
)

pauses = Table(
    "pauses",
    metadata,
    Column("stage", Text, primary_key=True),
    Column("since", Float, nullable=False),
    Column("until", Float),  # when a probe is let through; NULL: not before an operator says so
    Column("why", FreeText, nullable=False),
    Column("operator", FreeText),  # NULL: the circuit breaker
    counter("probes"),
    implicit_returning=False,
)

days = Table(
    "days",
    metadata,
    Column("day", Text, primary_key=True),
    *amounts("reserved"),
    *amounts("spent"),
    implicit_returning=False,
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", Text, primary_key=True),
    Column("event_id", Text, unique=True),
    Column("run_id", Text),
    Column("cause_id", Text),
    Column("corpus", Text),
    Column("stage", Text, nullable=False),
    Column("kind", Text),
    Column("schema_version", Integer),  # of the event's body
    Column("code_version", Text, nullable=False, server_default=""),  # the Sluice that parked it
    Column("idempotency_key", FreeText),
    Column("reason", FreeText, nullable=False),
    Column("exception_type", FreeText, nullable=False),
    Column("fingerprint", Text, nullable=False),
    counter("attempts"),
    counter("deliveries"),
    Column("first_seen", Float, nullable=False),
    Column("last_seen", Float, nullable=False),
    Column("worker", Text),
    Column("traceparent", Text),
    Column("sha256", Text, nullable=False),
    counter("replay_count"),
    Column("status", Text, nullable=False),
    Column("replayed_as", Text),  # the event that carries an edited payload
    Column("replay_id", Text),  # the bulk replay that took it last
    Column("operator", FreeText),
    Column("note", FreeText),
    # The long ones last: SQLite reads a row from its beginning, and only as far as it must.
    Column("message", FreeText, nullable=False),
    Column("stack", FreeText, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Index("dead_letters_seen", "status", "last_seen", "id"),
    Index("dead_letters_order", "status", "id"),
    Index("dead_letters_of_run", "run_id"),
    Index("dead_letters_alike", "status", "fingerprint", "id", "first_seen", "last_seen"),  # holds all that is grouped
    Index("dead_letters_replayed", "replay_id", "status"),
    implicit_returning=False,
)

dead_letter_payloads = Table(
    "dead_letter_payloads",
    metadata,
    Column("seq", ROW_ID, primary_key=True),
    Column("letter_id", Text, nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("operator", FreeText, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("sha256", Text, nullable=False),
    implicit_returning=False,
)

replays = Table(
    "replays",
    metadata,
    Column("id", Text, primary_key=True),
    Column("filter", Text, nullable=False),
    Column("per_second", Float, nullable=False),
    Column("force", Integer, nullable=False, server_default="0"),
    Column("status", Text, nullable=False),
    Column("why", FreeText),
    Column("operator", FreeText, nullable=False),
    Column("note", FreeText, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    counter("total"),
    counter("replayed"),
    Column("skips", Text, nullable=False, server_default="{}"),  # JSON: how many letters, by why they were left out
    Column("position", Text, nullable=False, server_default=""),  # the last letter that was looked at
    Index("replays_status", "status"),
    implicit_returning=False,
)

operator_actions = Table(
    "operator_actions",
    metadata,
    Column("seq", ROW_ID, primary_key=True),
    Column("at", Float, nullable=False),
    Column("operator", FreeText, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False, index=True),
    Column("note", FreeText, nullable=False),
    implicit_returning=False,
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", Float, nullable=False),
    implicit_returning=False,
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("name", FreeText, nullable=False),
    Column("role", Text, nullable=False),
    Column("corpora", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("revoked_at", Float),
    implicit_returning=False,
)

pages = Table(
    "pages",
    metadata,
    Column("corpus", Text, primary_key=True),
    Column("url_sha256", LargeBinary, primary_key=True),  # of the address that was directed
    Column("document_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),  # that read it last
    Column("is_held", Integer, nullable=False, server_default="0"),  # whether the index holds what that run has read
    Column("read_as", Text, nullable=False, server_default=""),  # how pages were read then: another way reads them anew
    Column("rendered", Integer, nullable=False, server_default="0"),
    Column("fetched_at", Float, nullable=False),
    Column("body_sha256", Text, nullable=False),
    Column("etag", FreeText),
    Column("last_modified", FreeText),
    Column("final_url", FreeText, nullable=False),
    Column("canonical_url", FreeText),
    Column("links", LargeBinary, nullable=False),  # JSON, compressed by zstd
    Column("nosnippet", Integer, nullable=False, server_default="0"),  # whether the index shows no text of it
    Column("withdrawn_by", Text),  # why it was taken out of the index, if it was; `fetched_at` is when
    Column("checksum", Text),  # of the document that the index holds of it
    Column("watched_since", Float),  # when it was read first of all
    Column("asked_at", Float),  # when its site was last asked for the page itself
    counter("changes"),  # how often it was found with another text since then
    Index("pages_of_document", "corpus", "document_id"),
    Index("pages_fetched", "fetched_at"),
    implicit_returning=False,
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Text, primary_key=True),  # follows from corpus, document and checksum: a chunk is held once
    Column("corpus", Text, nullable=False),
    Column("document_id", FreeText, nullable=False),
    Column("document_sha256", Text, nullable=False),  # of the document's version that had it last
    Column("chunk_id", FreeText, nullable=False),
    Column("checksum", Text, nullable=False),  # of the chunk's text
    Column("url", FreeText),
    Column("file_path", FreeText),
    Column("origin", Text, nullable=False),
    Column("submitted_by", FreeText),
    Column("findings", FreeText, nullable=False),  # JSON
    Column("inspected_by", FreeText),
    Column("run_id", Text),
    Column("fetched_at", Float, nullable=False),
    Column("held_at", Float, nullable=False),
    Column("state", Text, nullable=False),
    Column("blob_sha256", Text),  # a batch of the whole document as it was chunked; NULL once purged
    Column("blob_bytes", BigInteger),
    Column("source_sha256", Text),  # the batch of the chunk stage, which holds the text as well
    Column("operator", FreeText),
    Column("decided_at", Float),
    Column("note", FreeText),
    Index("quarantine_of_document", "corpus", "document_id"),
    Index("quarantine_held", "state", "held_at", "id"),
    implicit_returning=False,
)

forgotten = Table(
    "forgotten",
    metadata,
    Column("id", Text, primary_key=True),  # follows from corpus, kind and value
    Column("corpus", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("value", FreeText, nullable=False),
    Column("at", Float, nullable=False),
    Column("operator", FreeText, nullable=False),
    Column("note", FreeText, nullable=False),
    Index("forgotten_of_corpus", "corpus", "kind", "value"),
    implicit_returning=False,
)

citations = Table(
    "citations",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("citation", Integer, primary_key=True),  # its number in the run's answer
    Column("chunk_id", Text, primary_key=True),
    Column("corpus", Text, nullable=False),
    Column("document_id", FreeText, nullable=False),
    Column("checksum", Text),  # of the chunk's text; NULL where several chunks make the passage
    Column("url", FreeText),
    Column("seen_offset", BigInteger, nullable=False),  # of the journal, as of which the document had the chunk
    Column("is_checked", Integer, nullable=False, server_default="0"),  # whether it has it as it is now
    Column("profile", Text),  # of the gate, by which the question was asked
    Index("citations_of_document", "corpus", "document_id"),
    implicit_returning=False,
)
IS_UNCHECKED = citations.c.is_checked == literal_column("0")
"""How a query says *unchecked*: written out, so that SQLite knows the partial index to fit."""
Index("citations_unchecked", citations.c.corpus, sqlite_where=IS_UNCHECKED, postgresql_where=IS_UNCHECKED)
