"""The statements for graph servers: no server runs here, so a parser of openCypher reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sluice.graph.servers import statements
from sluice.graph.servers.dialect import DIALECTS, Dialect, dialect_of
from sluice.graph.servers.statements import CREATE_EDGES, EDGE_KINDS
from tests.support.bolt.grammar import problems

COMMON = ("MERGE_DOCUMENTS", "REMOVE_DOCUMENTS", "DELETE_DOCUMENTS", "DELETE_EDGES", "CREATE_EDGES", "LOWER_FENCES",
          "DELETE_CITATIONS", "READ_FEED", "WRITE_FEED", "STANDING", "LINKED", "DROP_CORPUS", "PING")  # fmt: skip


def _statements() -> Iterator[tuple[str, str]]:
    """What changes or asks the graph; the schema's statements are each server's own language."""
    for name in COMMON:
        yield from _each(f"both {name.lower()}", getattr(statements, name))
    for dialect in DIALECTS.values():
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


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_every_kind_of_edge_has_a_statement_and_every_label_a_constraint(dialect: Dialect) -> None:
    assert set(CREATE_EDGES) == set(EDGE_KINDS)
    for kind in EDGE_KINDS:
        for label in (kind.source, kind.target):
            assert any(f"(n:{label})" in text and "UNIQUE" in text for text in dialect.schema)


def test_a_server_is_known_by_its_name() -> None:
    assert dialect_of("Neo4j/5.26.0").name == "neo4j"
    assert dialect_of("Neo4j/v5.11.0 compatible graph database server - Memgraph").name == "memgraph"
