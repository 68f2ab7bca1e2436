"""A question in Cypher is answered from the newest file, in a process that is locked up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidInput, NotFound, TimedOut, Unavailable
from sluice.contracts.graph.api import CypherRequest, CypherResult
from sluice.graph.cypher.engine_file import newest_files
from sluice.graph.cypher.run import run_cypher
from tests.support.graph.cypher_file import publish_shop, shop_with_cypher


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    shop_with_cypher(folder)
    return folder


def ask(folder: Path, query: str, **more: object) -> CypherResult:
    return run_cypher(CypherRequest.model_validate({"query": query, **more}), folder)


def test_rows_come_with_the_generation_and_how_far_it_is_behind(shop: Path) -> None:
    query = "MATCH (d:Document {path: $path}) RETURN d.title AS title, d.content_hash, d.language"
    request = CypherRequest(query=query, parameters={"path": "shop/cart.py"})
    result = run_cypher(request, shop, version=10)
    assert result.columns == ("title", "d.content_hash", "d.language")
    assert result.rows == (("cart.py", "c0ffee", "python"),)
    assert (result.generation, result.behind, result.is_cut) == ("graph-000000000001", 7, False)


def test_nodes_edges_and_paths_are_objects_of_their_properties(shop: Path) -> None:
    result = ask(shop, "MATCH p = (d:Document {id: 'test'})-[r:REFERS_TO {origin: 'name'}]->(s) RETURN d, r, s, p")
    ((document, edge, symbol, path),) = result.rows
    assert document == {
        "label": "Document", "id": "test", "corpus": "default", "path": "tests/test_cart.py", "title": "test_cart.py"
    }  # fmt: skip
    assert edge == {"type": "REFERS_TO", "origin": "name", "line": 7, "lines": [7], "candidates": 1, "detail": ""}
    assert symbol["id"] == "python:?.save"
    assert path == {"nodes": [document, symbol], "edges": [edge]}


def test_more_rows_than_the_limit_are_told(shop: Path) -> None:
    assert ask(shop, "MATCH (s:Symbol) RETURN s.id", limit=2).is_cut
    assert len(ask(shop, "MATCH (s:Symbol) RETURN s.id", limit=2).rows) == 2
    own = ask(shop, "MATCH (s:Symbol) RETURN s.id LIMIT 2", limit=50)
    assert (len(own.rows), own.is_cut) == (2, False)


def test_a_question_without_variables_of_its_own_names_the_columns_of_the_engine(shop: Path) -> None:
    assert set(ask(shop, "MATCH (d:Document {id: 'cart'})-[r:CITED_BY]->(c) RETURN *").columns) == {"c", "d", "r"}


def test_a_question_that_takes_too_long_is_ended(shop: Path) -> None:
    query = (
        "MATCH (a), (b), (c), (d), (e), (f), (g), (h) "
        "WHERE (a.id + b.id + c.id + d.id + e.id + f.id + g.id + h.id) CONTAINS 'nowhere' RETURN count(*)"
    )
    with pytest.raises(TimedOut):
        ask(shop, query, timeout_seconds=1)


def test_what_the_engine_does_not_take_is_told_without_places_of_the_machine(shop: Path) -> None:
    with pytest.raises(InvalidInput, match="the engine does not take it") as caught:
        ask(shop, "MATCH (s:Symbol) RETURN s.name + 1")
    assert "/" not in caught.value.problem
    assert caught.value.field == "query"


def test_without_a_published_file_there_is_nothing_to_ask(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"graph\.cypher"):
        ask(tmp_path, "RETURN 1")
    publish_shop(tmp_path)
    with pytest.raises(NotFound):
        ask(tmp_path, "RETURN 1")


def test_an_instance_that_keeps_its_files_to_itself_is_asked_as_any_other(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        shop_with_cypher(tmp_path / "private")
    finally:
        os.umask(before)
    assert ask(tmp_path / "private", "MATCH (d:Document) RETURN count(d)").rows == ((6,),)


def test_a_file_that_may_not_be_read_is_not_taken_for_a_damaged_one(tmp_path: Path) -> None:
    shop_with_cypher(tmp_path)
    (found,) = newest_files(tmp_path)
    (found.folder / "cypher.lbug").chmod(0)
    with pytest.raises(Unavailable, match="cannot read the file"):
        ask(tmp_path, "MATCH (d:Document) RETURN count(d)")
    assert newest_files(tmp_path) == [found]


def test_a_file_that_does_not_open_is_thrown_away_and_the_one_before_is_asked(tmp_path: Path) -> None:
    shop_with_cypher(tmp_path)
    shop_with_cypher(tmp_path)
    newest, _ = newest_files(tmp_path)
    (newest.folder / "cypher.lbug").write_bytes(b"no database at all")
    assert ask(tmp_path, "MATCH (d:Document) RETURN count(d)").rows == ((6,),)
    assert [found.generation for found in newest_files(tmp_path)] == ["graph-000000000001"]
