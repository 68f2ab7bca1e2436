"""The steps from each version of the ledger's schema to the next; `ledger.migrate` carries them out.

A change of the tables adds its step here, under the version that it leads to; `schema_version` follows by itself:

    STEPS = {9: add_colour_to_runs}

    def add_colour_to_runs(operations: Operations) -> None:
        operations.add_column("runs", Column("colour", Text, nullable=False, server_default=""))

A step runs in the caller's transaction, on SQLite and PostgreSQL, and keeps every row. It names tables and columns as
they were in its own time: `ledger.tables` moves on, a step never does. After the last one the tables are those of a new
ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, Float, Integer, Text, text

if TYPE_CHECKING:
    from alembic.operations import Operations

INITIAL_VERSION = 3
"""The version of the first schema. Ledgers of 1 and 2 were never part of a release."""


def add_quarantine(operations: Operations) -> None:
    """Chunks that the guard holds back, and what was forgotten for good."""
    operations.create_table(
        "quarantine",
        Column("id", Text, primary_key=True),
        Column("corpus", Text, nullable=False),
        Column("document_id", Text, nullable=False),
        Column("document_sha256", Text, nullable=False),
        Column("chunk_id", Text, nullable=False),
        Column("checksum", Text, nullable=False),
        Column("url", Text),
        Column("file_path", Text),
        Column("origin", Text, nullable=False),
        Column("submitted_by", Text),
        Column("findings", Text, nullable=False),
        Column("inspected_by", Text),
        Column("run_id", Text),
        Column("fetched_at", Float, nullable=False),
        Column("held_at", Float, nullable=False),
        Column("state", Text, nullable=False),
        Column("blob_sha256", Text),
        Column("blob_bytes", BigInteger),
        Column("source_sha256", Text),
        Column("operator", Text),
        Column("decided_at", Float),
        Column("note", Text),
    )
    operations.create_index("quarantine_of_document", "quarantine", ["corpus", "document_id"])
    operations.create_index("quarantine_held", "quarantine", ["state", "held_at", "id"])
    operations.create_table(
        "forgotten",
        Column("id", Text, primary_key=True),
        Column("corpus", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("value", Text, nullable=False),
        Column("at", Float, nullable=False),
        Column("operator", Text, nullable=False),
        Column("note", Text, nullable=False),
    )
    operations.create_index("forgotten_of_corpus", "forgotten", ["corpus", "kind", "value"])


def add_freshness(operations: Operations) -> None:
    """What each answer cites, and how often a page was found changed."""
    operations.create_table(
        "citations",
        Column("run_id", Text, primary_key=True),
        Column("citation", Integer, primary_key=True),
        Column("chunk_id", Text, primary_key=True),
        Column("corpus", Text, nullable=False),
        Column("document_id", Text, nullable=False),
        Column("checksum", Text),
        Column("url", Text),
        Column("seen_offset", BigInteger, nullable=False),
        Column("is_checked", Integer, nullable=False, server_default="0"),
        Column("profile", Text),
    )
    is_unchecked = text("is_checked = 0")
    operations.create_index("citations_of_document", "citations", ["corpus", "document_id"])
    operations.create_index(
        "citations_unchecked", "citations", ["corpus"], sqlite_where=is_unchecked, postgresql_where=is_unchecked
    )
    operations.add_column("pages", Column("checksum", Text))
    operations.add_column("pages", Column("watched_since", Float))
    operations.add_column("pages", Column("asked_at", Float))
    operations.add_column("pages", Column("changes", BigInteger, nullable=False, server_default="0"))


def add_learning(operations: Operations) -> None:
    """What became of each run; flags, steps back of the gate, and rollouts of its models."""
    operations.create_table(
        "outcomes",
        Column("run_id", Text, primary_key=True),
        Column("corpus", Text, nullable=False),
        Column("profile", Text, nullable=False),
        Column("plan", Text, nullable=False),
        Column("config_hash", Text, nullable=False),
        Column("model_version", Text),
        Column("arm", Text),
        Column("propensity", Float, nullable=False, server_default="1"),
        Column("bucket", Float),
        Column("flags", Text, nullable=False, server_default=""),
        Column("is_trickle", Integer, nullable=False, server_default="0"),
        Column("is_stepped_back", Integer, nullable=False, server_default="0"),
        Column("decided_at", Float, nullable=False),
        Column("finished_at", Float),
        Column("status", Text, nullable=False, server_default="open"),
        Column("spent_nanousd", BigInteger, nullable=False, server_default="0"),
        Column("tokens", BigInteger, nullable=False, server_default="0"),
        Column("milliseconds", Float),
        Column("external_calls", BigInteger, nullable=False, server_default="0"),
        Column("pages_asked", BigInteger, nullable=False, server_default="0"),
        Column("pages_read", BigInteger, nullable=False, server_default="0"),
        Column("cited", BigInteger, nullable=False, server_default="0"),
        Column("used", BigInteger),
        Column("cited_age_seconds", Float),
        Column("cited_age_without_crawl_seconds", Float),
        Column("failed_checks", BigInteger, nullable=False, server_default="0"),
        Column("signals", Text, nullable=False, server_default="{}"),
        Column("judged_at", Float),
        Column("changed_at", Float, nullable=False),
    )
    operations.create_index("outcomes_decided", "outcomes", ["decided_at", "run_id"])
    operations.create_table(
        "flags",
        Column("name", Text, primary_key=True),
        Column("enabled", Integer),
        Column("killed", Integer, nullable=False, server_default="0"),
        Column("changed_at", Float, nullable=False),
        Column("operator", Text, nullable=False),
        Column("note", Text, nullable=False),
    )
    operations.create_table(
        "configurations",
        Column("profile", Text, primary_key=True),
        Column("config_hash", Text, primary_key=True),
        Column("first_decided_at", Float, nullable=False),
    )
    operations.create_table(
        "defences",
        Column("name", Text, primary_key=True),
        Column("profile", Text, primary_key=True),
        Column("state", Text, nullable=False),
        Column("tripped_at", Float),
        Column("changed_at", Float, nullable=False),
    )
    operations.create_table(
        "rollouts",
        Column("model_version", Text, primary_key=True),
        Column("model_sha256", Text, nullable=False),
        Column("unit", Text, nullable=False),
        Column("status", Text, nullable=False),
        Column("active", Integer, unique=True),
        Column("stages", Text, nullable=False),
        Column("share", Float, nullable=False),
        Column("began_at", Float, nullable=False),
        Column("stage_began_at", Float, nullable=False),
        Column("changed_at", Float, nullable=False),
        Column("history", Text, nullable=False),
        Column("operator", Text, nullable=False),
    )


def add_graph(operations: Operations) -> None:
    """The graph: documents, their edges, and the sums over each corpus."""
    operations.create_table(
        "graph_corpora",
        Column("corpus", Text, primary_key=True),
        Column("version", BigInteger, nullable=False, server_default="0"),
        Column("sha256", Text, nullable=False),
        Column("documents", BigInteger, nullable=False, server_default="0"),
        Column("edges", BigInteger, nullable=False, server_default="0"),
        Column("as_of", BigInteger, nullable=False, server_default="0"),
    )
    operations.create_table(
        "graph_documents",
        Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
        Column("corpus", Text, nullable=False),
        Column("document_id", Text, nullable=False),
        Column("as_of", BigInteger, nullable=False, server_default="0"),
        Column("is_tombstone", Integer, nullable=False, server_default="0"),
        Column("path", Text),
        Column("url", Text),
        Column("title", Text),
        Column("content_sha256", Text, nullable=False, server_default=""),
        Column("facts_sha256", Text, nullable=False, server_default=""),
        Column("parser_version", Text, nullable=False, server_default=""),
        Column("embedding_version", Text),
        Column("updated_at", Float, nullable=False),
        Column("edges", BigInteger, nullable=False, server_default="0"),
        Column("sha256", Text, nullable=False, server_default=""),
    )
    operations.create_index("graph_documents_by_id", "graph_documents", ["corpus", "document_id"], unique=True)
    operations.create_table(
        "graph_edges",
        Column("document", BigInteger, primary_key=True, autoincrement=False),
        Column("ordinal", Integer, primary_key=True, autoincrement=False),
        Column("type", Text, nullable=False),
        Column("source_label", Text, nullable=False),
        Column("source_key", Text),
        Column("target_label", Text, nullable=False),
        Column("target_key", Text),
        Column("origin", Text, nullable=False),
        Column("lines", Text, nullable=False, server_default=""),
        Column("detail", Text, nullable=False, server_default=""),
        sqlite_with_rowid=False,
    )


STEPS: dict[int, Callable[[Operations], None]] = {4: add_quarantine, 5: add_freshness, 6: add_learning, 7: add_graph}
"""By the version that a step leads to, without a gap behind `INITIAL_VERSION`."""


def schema_version() -> int:
    """The version of the schema that this Sluice reads and writes."""
    return max(STEPS, default=INITIAL_VERSION)
