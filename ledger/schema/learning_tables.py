"""The ledger's tables of what became of runs, and of what steers the gate: flags, steps back, rollouts of models.

The conventions are those of `ledger.schema.tables`.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, Table, Text

from sluice.ledger.schema.columns import FreeText, counter
from sluice.ledger.schema.tables import metadata

outcomes = Table(
    "outcomes",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("corpus", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("config_hash", Text, nullable=False),
    Column("model_version", Text),
    Column("arm", Text),
    Column("propensity", Float, nullable=False, server_default="1"),
    Column("bucket", Float),  # of the run's unit, by the draw of a rollout
    Column("flags", Text, nullable=False, server_default=""),  # the features that were off, in order
    Column("is_trickle", Integer, nullable=False, server_default="0"),
    Column("is_stepped_back", Integer, nullable=False, server_default="0"),
    Column("decided_at", Float, nullable=False),
    Column("finished_at", Float),
    Column("status", Text, nullable=False, server_default="open"),
    counter("spent_nanousd"),
    counter("tokens"),
    Column("milliseconds", Float),
    counter("external_calls"),
    counter("pages_asked"),
    counter("pages_read"),
    counter("cited"),
    Column("used", BigInteger),
    Column("cited_age_seconds", Float),
    Column("cited_age_without_crawl_seconds", Float),
    counter("failed_checks"),  # gates of severity P0 that the answer did not pass
    Column("signals", Text, nullable=False, server_default="{}"),  # JSON: signal -> a number in [0, 1]
    Column("judged_at", Float),
    Column("changed_at", Float, nullable=False),
    Index("outcomes_decided", "decided_at", "run_id"),
    implicit_returning=False,
)

flags = Table(
    "flags",
    metadata,
    Column("name", Text, primary_key=True),
    Column("enabled", Integer),  # NULL: no value is stored, and those below the stored ones decide
    Column("killed", Integer, nullable=False, server_default="0"),
    Column("changed_at", Float, nullable=False),
    Column("operator", FreeText, nullable=False),
    Column("note", FreeText, nullable=False),
    implicit_returning=False,
)

configurations = Table(
    "configurations",
    metadata,
    Column("profile", Text, primary_key=True),
    Column("config_hash", Text, primary_key=True),  # the profile's canonical bytes are the blob of this name
    Column("first_decided_at", Float, nullable=False),
    implicit_returning=False,
)

defences = Table(
    "defences",
    metadata,
    Column("name", Text, primary_key=True),
    Column("profile", Text, primary_key=True),
    Column("state", Text, nullable=False),  # JSON: what the next look needs to know of the looks before
    Column("tripped_at", Float),  # NULL while it only watches
    Column("changed_at", Float, nullable=False),
    implicit_returning=False,
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("model_version", Text, primary_key=True),
    Column("model_sha256", Text, nullable=False),
    Column("unit", Text, nullable=False),  # what is drawn: each run, or each session
    Column("status", Text, nullable=False),
    Column("active", Integer, unique=True),  # 1 while it has a part in decisions, else NULL: one model at a time
    Column("stages", Text, nullable=False),  # JSON: the shares that a canary goes through, and their lengths in runs
    Column("share", Float, nullable=False),  # of the units, in [0, 1]
    Column("began_at", Float, nullable=False),
    Column("stage_began_at", Float, nullable=False),
    Column("changed_at", Float, nullable=False),
    Column("history", FreeText, nullable=False),  # JSON: each stage, with its verdict and figures
    Column("operator", FreeText, nullable=False),
    implicit_returning=False,
)
