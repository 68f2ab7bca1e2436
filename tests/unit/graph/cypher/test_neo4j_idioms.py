"""What a Neo4j user writes without looking at a manual has the answer that Neo4j would give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.contracts.graph.api import CypherRequest
from sluice.graph.cypher.guard import guard
from sluice.graph.cypher.parse import NEO4J
from sluice.graph.cypher.run import run_cypher
from tests.support.graph.cypher_file import shop_with_cypher

PARAMETERS = {"names": ["Cart", "total"], "path": "shop/cart.py"}

IDIOMS: tuple[tuple[str, list[list[Any]]], ...] = (
    ("MATCH (n) RETURN labels(n)[0] AS label, count(*) AS n ORDER BY n DESC LIMIT 2", [["Symbol", 8], ["Document", 6]]),
    ("MATCH (d:Document {id: 'cart'}) RETURN split(d.path, '/')[0], split(d.path, '/')[-1], split(d.path, '/')[9]",
     [["shop", "cart.py", None]]),
    ("RETURN [1, 2, 3][0..2], [1, 2, 3][1..], tail([1, 2, 3]), head([]), isEmpty('')",
     [[[1, 2], [2, 3], [2, 3], None, True]]),
    ("MATCH (d:Document) WHERE d.path =~ '(?i).*CART\\\\.MD' RETURN d.path", [["docs/cart.md"]]),
    ("MATCH (d:Document) WHERE exists(d.language) RETURN d.id", [["cart"]]),
    ("MATCH (d:Document) WHERE EXISTS { (d)-[:LINKS_TO]->() } RETURN d.id", [["guide"]]),
    ("MATCH (d:Document) WHERE EXISTS { MATCH (d)-[:LINKS_TO]->(u) WHERE u.url STARTS WITH 'https' } RETURN d.id",
     [["guide"]]),
    ("MATCH (d:Document) WHERE NOT exists((d)--()) RETURN d.id", [["orphan"]]),
    ("MATCH (d:Document) WHERE COUNT { (d)-[:REFERS_TO]->() } > 1 RETURN d.id, size((d)-[:REFERS_TO]->()) AS n",
     [["test", 3]]),
    ("MATCH p = (:Document {id: 'guide'})-[:LINKS_TO]->()-[:RESOLVES_TO]->() RETURN [n IN nodes(p) | n.id]",
     [[["guide", "path:shop/cart.py", "cart"]]]),
    ("RETURN [x IN range(1, 5) WHERE x % 2 = 1 | x * x], [x IN ['a', 'b'] WHERE x <> 'a']", [[[1, 9, 25], ["b"]]]),
    ("MATCH (s:Symbol) WHERE any(n IN $names WHERE s.name = n) RETURN s.name ORDER BY s.name", [["Cart"], ["total"]]),
    ("MATCH p = shortestPath((a:Document {id: 'guide'})-[*]-(b:Document {id: 'base'})) RETURN length(p)", [[4]]),
    ("MATCH p = allShortestPaths((a {id: 'guide'})-[:REFERS_TO|DEFINED_IN*..4]-(b {id: 'base'})) RETURN count(p)", [[1]]),
    ("MATCH (n:Tool|Conversation) RETURN n.id ORDER BY n.id", [["session-1"], ["shop/pay"]]),
    ("MATCH (c:Symbol {name: 'Cart'})-[:INHERITS*0..3]->(b) RETURN b.name ORDER BY b.name", [["Cart"], ["Stored"]]),
    ("MATCH (d:Document) WITH collect(d.id) AS ids UNWIND ids AS id RETURN count(id)", [[6]]),
    ("RETURN {a: 1, b: ['x']} AS m", [[{"a": 1, "b": ["x"]}]]),
    ("MATCH (d:Document)-[:LINKS_TO]->(u) WITH d, count(u) AS uses WITH {path: d.path, uses: uses} AS m RETURN m.path, m.uses",
     [["docs/cart.md", 2]]),
    ("MATCH (t:Tool) RETURN t.id AS id UNION ALL MATCH (c:Conversation) RETURN c.id AS id", [["shop/pay"], ["session-1"]]),
    ("MATCH (t:Tool) RETURN 1 AS x UNION MATCH (c:Conversation) RETURN 1 AS x", [[1]]),
    ("MATCH (a)-[:REFERS_TO]->()<-[:REFERS_TO]-(b) WHERE id(a) < elementId(b) RETURN a.id, b.id", [["guide", "test"]]),
    ("MATCH (s:Symbol) WHERE 3 < size(s.name) < 5 RETURN count(s)", [[4]]),
    ("MATCH (d:Document {id: 'cart'}) RETURN d.path AS `the path`, d.id AS Größe", [["shop/cart.py", "cart"]]),
    ("MATCH (a)<-->(b) RETURN count(*) = 40", [[True]]),
    ("RETURN 5-3, 2 -1, size('abc')-1, 100.0 * 1.05, 0.0, sqrt(4), sign(-2), round(1.25, 1), toBoolean('true')",
     [[2, 1, 2, 105.0, 0.0, 2.0, -1, 1.3, True]]),
    ("MATCH (start:Tool)-[r]->(end) RETURN CASE WHEN start.name = 'pay' THEN type(r) ELSE '' END AS t",
     [["DEFINED_IN"]]),
    ("MATCH (start:Tool)-->(end) RETURN end.path", [["server/tools.json"]]),
    ("MATCH (t:Tool) RETURN properties(t).server, t.id", [["shop", "shop/pay"]]),
    # Several WITHs, and rows that are ordered or cut before the end.
    ("MATCH (d:Document) WITH d MATCH (d)-[:REFERS_TO]->(s) WITH s, count(d) AS uses WITH s, uses WHERE uses > 1 RETURN s.name",
     [["total"]]),
    ("MATCH (d:Document) WITH d.path AS p ORDER BY p WITH collect(p) AS ps RETURN ps[0..2]",
     [[["docs/cart.md", "docs/old.md"]]]),
    ("MATCH (d:Document) WITH d ORDER BY d.path LIMIT 3 RETURN collect(d.path)",
     [[["docs/cart.md", "docs/old.md", "server/tools.json"]]]),
    ("MATCH (d:Document)-[:REFERS_TO]->() WITH d, count(*) AS n ORDER BY n DESC LIMIT 1 MATCH (d)-[:LINKS_TO]->(u) "
     "RETURN u.url", []),
    ("MATCH (d:Document) WITH d.path AS p ORDER BY p DESC SKIP 1 LIMIT 1 RETURN *", [["shop/cart.py"]]),
)  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    shop_with_cypher(folder)
    return folder


@pytest.mark.parametrize(("query", "rows"), IDIOMS, ids=range(len(IDIOMS)))
def test_an_idiom_of_neo4j_has_its_answer(shop: Path, query: str, rows: list[list[Any]]) -> None:
    request = CypherRequest(query=query, parameters=dict(PARAMETERS), limit=20)
    assert [list(row) for row in run_cypher(request, shop).rows] == rows


def test_columns_are_named_as_asked_whatever_the_name() -> None:
    assert guard("RETURN 1 AS `a b`, 2 AS Größe", {}, "c", 9).columns == ("a b", "Größe")


def test_a_server_gets_the_same_question_in_its_own_words() -> None:
    asked = "MATCH p = shortestPath((a:URL|Tool)-[*]-(b)) WHERE size((a)--()) > 1 RETURN nodes(p)[0..2], [n IN nodes(p) | n.id]"
    text = guard(asked, {}, "c", 9, NEO4J).text
    assert "shortestPath((`a`:URL|Tool {corpus: $corpus}) -[*1..10]- (`b` {corpus: $corpus}))" in text
    assert "COUNT { MATCH (`a` {corpus: $corpus}) -- ( {corpus: $corpus}) }" in text
    assert "nodes(`p`)[0..2], [`n` IN nodes(`p`) | `n`.id]" in text
    with pytest.raises(InvalidInput, match="not put to a server"):
        guard("MATCH (n) WHERE n.id =~ '(a+)+' RETURN n", {}, "c", 9, NEO4J)


def test_each_part_of_a_union_is_cut_by_itself_and_the_whole_by_the_limit(shop: Path) -> None:
    query = "MATCH (d:Document) RETURN d.id AS x ORDER BY x LIMIT 2 UNION ALL MATCH (s:Symbol) RETURN s.id AS x"
    result = run_cypher(CypherRequest(query=query, limit=4), shop)
    assert [row[0] for row in result.rows[:2]] == ["base", "cart"]
    assert len(result.rows) == 4
    assert result.is_cut


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (
            "MATCH (d:Document) WHERE d.name = 'x' RETURN d",
            "d has no property name (by label: Document: id, corpus, path",
        ),
        ("MATCH (d:Document) WITH count(d) AS n MATCH (u:URL) RETURN count(u) / n", "aggregate first: WITH"),
    ],
)
def test_what_the_engine_refuses_is_told_in_words_that_help(shop: Path, query: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        run_cypher(CypherRequest(query=query), shop)
    assert told in str(caught.value)
