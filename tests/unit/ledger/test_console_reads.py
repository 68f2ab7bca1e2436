"""No page that people look at reads a whole table: each statement of each read goes along an index, on SQLite.

A new read is a line in `tests.support.console_reads.READS`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

from sluice.contracts.errors import InvalidInput, PolicyRefused
from sluice.contracts.event import DeadLetter
from sluice.ledger.ledger import Ledger
from tests.support.console_reads import GROWS, OF_OPEN_WORK, READS
from tests.support.ledger_story import Clock, Story, page

MOST_STATEMENTS = {"one run": 6, "one letter": 6, "overview": 5, "a run's timeline": 7}
"""Statements of reads that take more than three, in one transaction."""


@pytest.fixture
def ledger(tmp_path: Path, sqlite_template: Path) -> Iterator[Ledger]:
    """A ledger with a run and a letter in it. Its plans do not depend on how many: nobody analyses it."""
    (tmp_path / "ledger.sqlite").write_bytes(sqlite_template.read_bytes())
    url, clock = f"sqlite:///{tmp_path / 'ledger.sqlite'}", Clock()
    with Ledger(url, clock=clock) as ledger:
        story = Story(ledger, clock, url)
        [directed] = story.begins(page(), query="when does a lease end?")
        story.handles(directed, DeadLetter("policy", PolicyRefused("robots", "disallowed", "nothing")))
        yield ledger


@pytest.fixture
def statements(ledger: Ledger) -> list[str]:
    """Collects every query that the ledger runs from now on, with the values in it."""
    found: list[str] = []

    def hear(statement: str) -> None:
        if statement.startswith("SELECT"):
            found.append(statement)

    ledger.database.close()
    event.listen(ledger.database.engine, "connect", lambda connection, _: connection.set_trace_callback(hear))
    return found


def scans_of(ledger: Ledger, statements: list[str]) -> list[str]:
    """The steps of the statements' plans that read a growing table from end to end."""
    with closing(sqlite3.connect(str(ledger.database.url.database))) as connection:
        steps = [str(row[3]) for one in statements for row in connection.execute(f"EXPLAIN QUERY PLAN {one}")]
    found = [(step, re.match(r"SCAN ([a-z_]+?)(?:_\d+)?(?: |$)", step)) for step in steps]
    return [
        step
        for step, scan in found
        if scan and scan[1] in GROWS and not any(f"INDEX {index}" in step for index in OF_OPEN_WORK)
    ]


@pytest.mark.parametrize("name", READS)
def test_a_read_goes_along_an_index(ledger: Ledger, statements: list[str], name: str) -> None:
    READS[name](ledger)
    assert 1 <= len(statements) <= MOST_STATEMENTS.get(name, 3)
    assert scans_of(ledger, statements) == []


def test_a_scan_would_be_seen(ledger: Ledger) -> None:
    for one in ("SELECT count(*) FROM events WHERE settled_at > 9", "SELECT * FROM runs ORDER BY run_id DESC LIMIT 9"):
        assert scans_of(ledger, [one]) != []


def test_a_search_needs_a_word_that_the_index_knows(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="no word of 3 letters"):
        ledger.runs(text="is it")
