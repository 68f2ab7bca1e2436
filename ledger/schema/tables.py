"""The ledger's tables and their indices: for runs and events, trust, learning, and the graph.

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
    ColumnElement,
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

from sluice.ledger.schema.columns import ROW_ID, FreeText, amounts, counter, counters, optional, required

AnyRow = Any
"""A row whose columns are read by name."""

metadata = MetaData()


def _table(name: str, *parts: Column[Any] | Index, sqlite_with_rowid: bool = True) -> Table:
    return Table(name, metadata, *parts, implicit_returning=False, sqlite_with_rowid=sqlite_with_rowid)


def _partial(name: str, where: ColumnElement[bool], *columns: Column[Any], unique: bool = False) -> None:
    """Create an index that holds only the rows that match `where`."""
    Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


versions = Table("schema_version", metadata, Column("version", Integer, primary_key=True, autoincrement=False))

runs = _table(
    "runs",
    Column("run_id", Text, primary_key=True),
    *required(Text, "kind", "corpus", "owner", "status"),
    *optional(FreeText, "query", "idempotency_key"),
    Column("request_sha256", Text, nullable=False),
    Column("traceparent", Text),
    Column("created_at", Float, nullable=False),
    Column("deadline_at", Float),
    Column("answer_due_at", Float),  # the deadline of a gate run, until an answer is directed
    Column("finished_at", Float),
    *amounts("run", kept=True),  # the run's ceilings
    *amounts("day", kept=True),  # the day's ceilings, as they were when the run began
    *amounts("reserved"),
    *amounts("spent"),
    *counters("settled_events", "dead_letters"),
    Column("journal_offset", BigInteger),
    Column("generation", Text),
    Index("runs_idempotency", "owner", "idempotency_key", unique=True),
)
_partial("runs_answer_due", runs.c.answer_due_at.is_not(None), runs.c.answer_due_at)

events = _table(
    "events",
    Column("seq", ROW_ID, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    *required(Text, "run_id", "kind"),
    Column("queue", Text),
    Column("status", Text, nullable=False),
    Column("due_at", Float),
    *counters("epoch", "attempts", "deliveries", "deaths"),
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
    Column("why", FreeText),  # the reason of the last retry or discard
    Column("payload", Text, nullable=False),
    Index("events_of_run", "run_id", "seq"),
    Index("events_of_kind", "run_id", "kind"),
)
_HAS = events.c
IS_OPEN = _HAS.due_at >= 0
"""SQL condition for *open*: a range, so that SQLite prefers the index of open events to that of all of a run."""
_partial("events_open", _HAS.due_at.is_not(None), _HAS.run_id, _HAS.due_at)
_partial("events_due", _HAS.due_at.is_not(None), _HAS.status, _HAS.due_at, _HAS.queue)
IS_READY = _HAS.status == literal_column("'ready'")
"""SQL condition for *ready*, as a literal, so that SQLite finds the partial indices to match."""
IS_SUSPECT = and_(IS_READY, _HAS.deaths > literal_column("0"))
"""SQL condition for ready events that a worker died on."""
_partial("events_ready", IS_READY, _HAS.queue, _HAS.priority, _HAS.turn, _HAS.seq)
_partial("events_in_lane", IS_READY, _HAS.queue, _HAS.priority, _HAS.lane, _HAS.turn)
_partial("events_suspect", IS_SUSPECT, _HAS.queue)
_partial("events_dedupe", _HAS.dedupe_key.is_not(None), _HAS.run_id, _HAS.dedupe_key, unique=True)

pauses = _table(
    "pauses",
    Column("stage", Text, primary_key=True),
    Column("since", Float, nullable=False),
    Column("until", Float),  # when a probe may pass; NULL: until an operator resumes
    Column("why", FreeText, nullable=False),
    Column("operator", FreeText),  # NULL: the circuit breaker
    counter("probes"),
)

days = _table("days", Column("day", Text, primary_key=True), *amounts("reserved"), *amounts("spent"))

dead_letters = _table(
    "dead_letters",
    Column("id", Text, primary_key=True),
    Column("event_id", Text, unique=True),
    *optional(Text, "run_id", "cause_id", "corpus"),
    Column("stage", Text, nullable=False),
    Column("kind", Text),
    Column("schema_version", Integer),  # version of the event's body
    Column("code_version", Text, nullable=False, server_default=""),  # the version of Sluice that parked it
    Column("idempotency_key", FreeText),
    *required(FreeText, "reason", "exception_type"),
    Column("fingerprint", Text, nullable=False),
    *counters("attempts", "deliveries"),
    *required(Float, "first_seen", "last_seen"),
    *optional(Text, "worker", "traceparent"),
    Column("sha256", Text, nullable=False),
    counter("replay_count"),
    Column("status", Text, nullable=False),
    Column("replayed_as", Text),  # the event that carries an edited payload
    Column("replay_id", Text),  # the bulk replay that took it last
    *optional(FreeText, "operator", "note"),
    # The long columns last: SQLite reads a row from its beginning, and only as far as it must.
    *required(FreeText, "message", "stack"),
    Column("payload", LargeBinary, nullable=False),
    Index("dead_letters_seen", "status", "last_seen", "id"),
    Index("dead_letters_order", "status", "id"),
    Index("dead_letters_of_run", "run_id"),
    Index("dead_letters_alike", "status", "fingerprint", "id", "first_seen", "last_seen"),  # covers the grouping
    Index("dead_letters_replayed", "replay_id", "status"),
)

dead_letter_payloads = _table(
    "dead_letter_payloads",
    Column("seq", ROW_ID, primary_key=True),
    Column("letter_id", Text, nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("operator", FreeText, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("sha256", Text, nullable=False),
)

replays = _table(
    "replays",
    Column("id", Text, primary_key=True),
    Column("filter", Text, nullable=False),
    Column("per_second", Float, nullable=False),
    Column("force", Integer, nullable=False, server_default="0"),
    Column("status", Text, nullable=False),
    Column("why", FreeText),
    *required(FreeText, "operator", "note"),
    *required(Float, "created_at", "updated_at"),
    *counters("total", "replayed"),
    Column("skips", Text, nullable=False, server_default="{}"),  # JSON: how many letters were skipped, by reason
    Column("position", Text, nullable=False, server_default=""),  # the last letter that was examined
    Index("replays_status", "status"),
)

operator_actions = _table(
    "operator_actions",
    Column("seq", ROW_ID, primary_key=True),
    Column("at", Float, nullable=False),
    Column("operator", FreeText, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False, index=True),
    Column("note", FreeText, nullable=False),
)

leases = _table(
    "leases",
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", Float, nullable=False),
)

api_keys = _table(
    "api_keys",
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("name", FreeText, nullable=False),
    *required(Text, "role", "corpora"),
    Column("created_at", Float, nullable=False),
    Column("revoked_at", Float),
)

pages = _table(
    "pages",
    Column("corpus", Text, primary_key=True),
    Column("url_sha256", LargeBinary, primary_key=True),  # hash of the address that was directed
    Column("document_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),  # the run that read it last
    Column("is_held", Integer, nullable=False, server_default="0"),  # whether the index holds this run's text
    Column("read_as", Text, nullable=False, server_default=""),  # the way it was read: in another way it is read anew
    Column("rendered", Integer, nullable=False, server_default="0"),
    Column("fetched_at", Float, nullable=False),
    Column("body_sha256", Text, nullable=False),
    *optional(FreeText, "etag", "last_modified"),
    Column("final_url", FreeText, nullable=False),
    Column("canonical_url", FreeText),
    Column("links", LargeBinary, nullable=False),  # JSON, compressed by zstd
    Column("nosnippet", Integer, nullable=False, server_default="0"),  # whether the index shows no text of it
    Column("withdrawn_by", Text),  # why it was withdrawn from the index, if it was; `fetched_at` is when
    Column("checksum", Text),  # checksum of its document in the index
    Column("watched_since", Float),  # when it was first read
    Column("asked_at", Float),  # when its site was last requested for the page itself
    counter("changes"),  # how often its text was found changed since then
    Column("owner", Text),  # the API key whose run read it first
    Index("pages_of_document", "corpus", "document_id"),
    Index("pages_fetched", "fetched_at"),
)

# -- trust

quarantine = _table(
    "quarantine",
    Column("id", Text, primary_key=True),  # derived from corpus, document and checksum: a chunk is held once
    Column("corpus", Text, nullable=False),
    Column("document_id", FreeText, nullable=False),
    Column("document_sha256", Text, nullable=False),  # the latest version of the document that had it
    Column("chunk_id", FreeText, nullable=False),
    Column("checksum", Text, nullable=False),  # checksum of the chunk's text
    *optional(FreeText, "url", "file_path"),
    Column("origin", Text, nullable=False),
    Column("submitted_by", FreeText),
    Column("findings", FreeText, nullable=False),  # JSON
    Column("inspected_by", FreeText),
    Column("run_id", Text),
    *required(Float, "fetched_at", "held_at"),
    Column("state", Text, nullable=False),
    Column("blob_sha256", Text),  # a batch of the whole document as it was chunked; NULL once purged
    Column("blob_bytes", BigInteger),
    Column("source_sha256", Text),  # the batch of the chunk stage, which holds the text as well
    Column("operator", FreeText),
    Column("decided_at", Float),
    Column("note", FreeText),
    Index("quarantine_of_document", "corpus", "document_id"),
    Index("quarantine_held", "state", "held_at", "id"),
)

forgotten = _table(
    "forgotten",
    Column("id", Text, primary_key=True),  # derived from corpus, kind and value
    *required(Text, "corpus", "kind"),
    Column("value", FreeText, nullable=False),
    Column("at", Float, nullable=False),
    *required(FreeText, "operator", "note"),
    Index("forgotten_of_corpus", "corpus", "kind", "value"),
)

citations = _table(
    "citations",
    Column("run_id", Text, primary_key=True),
    Column("citation", Integer, primary_key=True),  # its number in the run's answer
    Column("chunk_id", Text, primary_key=True),
    Column("corpus", Text, nullable=False),
    Column("document_id", FreeText, nullable=False),
    Column("checksum", Text),  # checksum of the chunk's text; NULL where several chunks make the passage
    Column("url", FreeText),
    Column("seen_offset", BigInteger, nullable=False),  # the journal offset as of which the document had the chunk
    Column("is_checked", Integer, nullable=False, server_default="0"),  # whether the document was seen to have it now
    Column("profile", Text),  # the gate's profile that answered the question
    Index("citations_of_document", "corpus", "document_id"),
)
IS_UNCHECKED = citations.c.is_checked == literal_column("0")
"""SQL condition for *unchecked*, as a literal, so that SQLite finds the partial index to match."""
_partial("citations_unchecked", IS_UNCHECKED, citations.c.corpus)

# -- outcomes of runs, and the gate's controls

outcomes = _table(
    "outcomes",
    Column("run_id", Text, primary_key=True),
    *required(Text, "corpus", "profile", "plan", "config_hash"),
    *optional(Text, "model_version", "arm"),
    Column("propensity", Float, nullable=False, server_default="1"),
    Column("bucket", Float),  # the draw of the run's unit in a rollout
    Column("flags", Text, nullable=False, server_default=""),  # the features that were off, in order
    Column("is_trickle", Integer, nullable=False, server_default="0"),
    Column("is_stepped_back", Integer, nullable=False, server_default="0"),
    Column("decided_at", Float, nullable=False),
    Column("finished_at", Float),
    Column("status", Text, nullable=False, server_default="open"),
    *counters("spent_nanousd", "tokens"),
    Column("milliseconds", Float),
    *counters("external_calls", "pages_asked", "pages_read", "cited"),
    Column("used", BigInteger),
    *optional(Float, "cited_age_seconds", "cited_age_without_crawl_seconds"),
    counter("failed_checks"),  # failed checks of severity P0 in the answer
    Column("signals", Text, nullable=False, server_default="{}"),  # JSON: signal -> a number in [0, 1]
    Column("judged_at", Float),
    Column("changed_at", Float, nullable=False),
    Column("owner", Text, nullable=False, server_default="local"),  # the API key that asked
    Column("judged_by", Text),  # the API key whose feedback counts; NULL: the owner's
    Index("outcomes_decided", "decided_at", "run_id"),
)

flags = _table(
    "flags",
    Column("name", Text, primary_key=True),
    Column("enabled", Integer),  # NULL: no value is stored, and lower layers decide
    Column("killed", Integer, nullable=False, server_default="0"),
    Column("changed_at", Float, nullable=False),
    *required(FreeText, "operator", "note"),
)

configurations = _table(
    "configurations",
    Column("profile", Text, primary_key=True),
    Column("config_hash", Text, primary_key=True),  # the profile's canonical bytes are the blob of this name
    Column("first_decided_at", Float, nullable=False),
)

defences = _table(
    "defences",
    Column("name", Text, primary_key=True),
    Column("profile", Text, primary_key=True),
    *(Column(name, Text, primary_key=True, server_default="*") for name in ("corpus", "owner")),
    Column("state", Text, nullable=False),  # JSON: the state that the next look reads
    Column("tripped_at", Float),  # NULL while it only watches
    Column("pin", Text),  # "on" or "off" while an operator holds it so
    Column("changed_at", Float, nullable=False),
)

rollouts = _table(
    "rollouts",
    Column("model_version", Text, primary_key=True),
    Column("model_sha256", Text, nullable=False),
    Column("unit", Text, nullable=False),  # the unit that is drawn: each run, or each session
    Column("status", Text, nullable=False),
    Column("active", Integer, unique=True),  # 1 while it takes part in decisions, else NULL: one model at a time
    Column("stages", Text, nullable=False),  # JSON: the shares of a canary's stages, and their lengths in runs
    Column("share", Float, nullable=False),  # share of the units, in [0, 1]
    *required(Float, "began_at", "stage_began_at", "changed_at"),
    Column("history", FreeText, nullable=False),  # JSON: each stage, with its verdict and figures
    Column("operator", FreeText, nullable=False),
)

# -- the graph: documents, the edges that each of them owns, and the sums over a corpus

graph_corpora = _table(
    "graph_corpora",
    Column("corpus", Text, primary_key=True),
    counter("version"),  # counts changes of documents
    Column("sha256", Text, nullable=False),  # the sum, modulo 2^256, of the hashes of its documents
    *counters("documents", "edges"),
    counter("as_of"),  # the highest journal offset of its documents
)

graph_documents = _table(
    "graph_documents",
    Column("number", ROW_ID, primary_key=True),
    Column("corpus", Text, nullable=False),
    Column("document_id", FreeText, nullable=False),
    counter("as_of"),  # the journal offset of the index it was read from: no earlier reading replaces it
    Column("is_tombstone", Integer, nullable=False, server_default="0"),  # it left the index, at `as_of`
    *optional(FreeText, "path", "url", "title"),
    Column("content_sha256", Text, nullable=False, server_default=""),
    Column("facts_sha256", Text, nullable=False, server_default=""),  # hash of the other inputs of its edges
    Column("parser_version", Text, nullable=False, server_default=""),
    Column("embedding_version", Text),
    Column("updated_at", Float, nullable=False),
    counter("edges"),
    Column("sha256", Text, nullable=False, server_default=""),  # hash of its identity and of its edges
    Index("graph_documents_by_id", "corpus", "document_id", unique=True),
)

graph_edges = _table(
    "graph_edges",
    Column("document", BigInteger, primary_key=True, autoincrement=False),  # the number of the document that owns it
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    *required(Text, "type", "source_label"),
    Column("source_key", FreeText),  # NULL: the document that owns it
    Column("target_label", Text, nullable=False),
    Column("target_key", FreeText),  # NULL: the document that owns it
    Column("origin", Text, nullable=False),
    Column("lines", Text, nullable=False, server_default=""),  # numbers, between commas
    Column("detail", FreeText, nullable=False, server_default=""),
    sqlite_with_rowid=False,  # a document's edges are stored together, and are read and removed with it
)
