"""What holds for every test: where the shared fixtures are."""

from __future__ import annotations

pytest_plugins = (
    "tests.support.egress",
    "tests.support.index_corpus",
    "tests.support.online",
    "tests.support.postgresql",
    "tests.support.valkey",
    "tests.support.in_process",  # after those that it imports: their assertions are rewritten as they are loaded
    "tests.support.ledger_story",
)
