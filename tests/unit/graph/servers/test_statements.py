"""The statements for graph servers: no server runs here, so a parser of openCypher reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sluice.graph.servers.statements import (
    EDGE_KINDS,
    Dialect,
    create_edges,
    delete_edges,
    dialect_of,
    dialects,
    statement,
    statements,
)
from tests.support.bolt.grammar import problems

ONE = ("merge_documents", "remove_documents", "delete_documents", "delete_citations", "read_feed", "write_feed",
       "standing", "linked", "ping")  # fmt: skip


def _statements() -> Iterator[tuple[str, str]]:
    """What changes or asks the graph; the schema's statements are each server's own language."""
    for name in ONE:
        yield from _each(f"both {name}", statement(name))
    for name in ("lower_fences", "drop_corpus"):
        yield from _each(f"both {name}", statements(name))
    yield from _each("both delete_edges", delete_edges())
    yield from _each("both create_edges", create_edges())
    for dialect in dialects().values():
        for name in ("delete_orphans", "nearest", "nearest_exactly"):
            yield from _each(f"{dialect.name} {name}", getattr(dialect, name))


def _each(name: str, value: Any) -> Iterator[tuple[str, str]]:
    values = value.values() if hasattr(value, "values") else (value,) if isinstance(value, str) else value
    for number, text in enumerate(values):
        yield f"{name} {number}", text


NOT_OF_THIS_PARSER = {
    "merge_documents": "its grammar takes no WITH behind a MERGE in a second part; openCypher's does",
    "both delete_edges 1": "the same of DELETE",
    "both delete_edges 2": "the same of DELETE",
    "both delete_edges 3": "the same of DELETE",
    "memgraph delete_orphans": "exists() of a pattern is Memgraph's own",
    "memgraph nearest_exactly": "so is reduce()",
}
ALL = list(_statements())


@pytest.mark.parametrize(("name", "text"), ALL, ids=[name for name, _ in ALL])
def test_every_statement_is_cypher_and_takes_values_as_parameters(name: str, text: str) -> None:
    if not any(part in name for part in NOT_OF_THIS_PARSER):
        assert problems(text) == []
    assert name == "both ping 0" or "$" in text
    assert "{" not in text.replace("{corpus: $corpus", "").replace("{dimension}", "") or "row." in text


def test_the_parser_finds_what_is_wrong() -> None:
    assert problems("MATCH (d:Document {corpus: $corpus}") != []


@pytest.mark.parametrize("dialect", dialects().values(), ids=list(dialects()))
def test_every_kind_of_edge_has_a_statement_and_every_label_a_constraint(dialect: Dialect) -> None:
    assert set(create_edges()) == set(EDGE_KINDS)
    for kind in EDGE_KINDS:
        for label in (kind.source, kind.target):
            assert any(f"(n:{label})" in text and "UNIQUE" in text for text in dialect.schema)


def test_a_server_is_known_by_its_name() -> None:
    assert dialect_of("Neo4j/5.26.0").name == "neo4j"
    assert dialect_of("Neo4j/v5.11.0 compatible graph database server - Memgraph").name == "memgraph"
