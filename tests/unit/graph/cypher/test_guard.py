"""The guard lets through what reads the graph, and tells where and why it refuses all else."""

from __future__ import annotations

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.graph.cypher.guard import Statement, guard
from sluice.graph.cypher.parse import LADYBUG, NEO4J
from tests.support.graph.hostile_cypher import REFUSED


def check(query: str, limit: int = 100, **parameters: object) -> Statement:
    return guard(query, parameters, "shop", limit)  # type: ignore[arg-type]


@pytest.mark.parametrize(("query", "told"), REFUSED, ids=range(len(REFUSED)))
def test_it_refuses_what_is_not_on_the_list_and_says_where(query: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check(query, ids=["a"], p=3)
    assert caught.value.field == "query"
    assert told in str(caught.value)
    assert "line " in caught.value.problem or "characters" in caught.value.problem or "skips" in caught.value.problem


def test_the_corpus_is_added_to_every_node_of_every_pattern() -> None:
    statement = check("MATCH (d:Document)-[:LINKS_TO]->(), (x {id: $x}) WHERE NOT (d)-->(:Symbol) RETURN d", x="1")
    assert statement.text.count("corpus: $corpus") == 5
    assert statement.parameters["corpus"] == "shop"
    assert "shop" not in statement.text


def test_texts_travel_as_parameters_and_never_as_text() -> None:
    statement = check("MATCH (d {path: 'a\\'b'}) WHERE d.title = \"\\u0041\" RETURN 'x' AS x, $p", p="y'")
    assert "'" not in statement.text
    assert statement.parameters == {"s_0": "a'b", "s_1": "A", "s_2": "x", "p_p": "y'", "corpus": "shop"}


def test_a_parameter_called_corpus_does_not_change_the_corpus() -> None:
    statement = check("MATCH (d) WHERE d.path = $corpus RETURN d", corpus="other")
    assert statement.parameters == {"p_corpus": "other", "corpus": "shop"}


@pytest.mark.parametrize(
    ("query", "rows", "ends"),
    [
        ("MATCH (n) RETURN n", 100, "LIMIT 101"),
        ("MATCH (n) RETURN n LIMIT 7", 7, "LIMIT 8"),
        ("MATCH (n) RETURN n LIMIT 5000", 100, "LIMIT 101"),
        ("MATCH (n) RETURN n SKIP 3 LIMIT $p", 9, "SKIP 3 LIMIT 10"),
        ("MATCH (n) RETURN n LIMIT 0", 0, "LIMIT 1"),
        ("MATCH (n) WITH n SKIP 1 LIMIT 2 RETURN n", 100, "LIMIT 101"),
    ],
)
def test_a_limit_is_added_or_lowered(query: str, rows: int, ends: str) -> None:
    statement = check(query, p=9)
    assert statement.rows == rows
    assert statement.text.endswith(ends)


def test_a_limit_by_parameter_has_to_be_a_whole_number() -> None:
    for wrong in ("1; DROP TABLE Document", -1, 1.5, True, None, [1]):
        with pytest.raises(InvalidInput, match="parameters"):
            check("MATCH (n) RETURN n LIMIT $p", p=wrong)


def test_parameters_are_looked_at() -> None:
    for value, told in (
        ([1] * 10_001, "at most 10,000"), (["x" * 600_000] * 2, "at most 1,000,000"), (float("nan"), "finite"),
        (2**63, "64 bits"), ("\ud800", "no valid text"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=told):
            check("RETURN $p", p=value)
    with pytest.raises(InvalidInput, match="p is not given"):
        check("RETURN $p")
    assert "p_unused" not in check("RETURN 1", unused=1).parameters


def test_columns_are_named_as_they_are_asked_for() -> None:
    assert check("MATCH (n) RETURN n.id, count( * ) AS `c`, 'x'").columns == ("n.id", "c", "'x'")
    assert check("MATCH (n) RETURN *").columns is None


def test_each_dialect_gets_its_own_words() -> None:
    query = "MATCH (a)-[r:LINKS_TO*1..3]->(b) WHERE a:Document RETURN labels(a), type(head(relationships(p))), substring(a.id, 0, 2)"
    query = query.replace("MATCH (a)", "MATCH p = (a)")
    embedded = guard(query, {}, "shop", 5, LADYBUG).text
    server = guard(query, {}, "shop", 5, NEO4J).text
    assert "* TRAIL 1..3" in embedded
    assert "label(`a`) = 'Document'" in embedded
    assert "substring(`a`.id, (0) + 1, 2)" in embedded
    assert "[`r`:LINKS_TO*1..3]" in server
    assert "`a`:Document" in server
    assert "type(head(relationships(`p`)))" in server


def test_a_question_over_several_lines_with_comments_keeps_its_positions() -> None:
    with pytest.raises(InvalidInput, match="line 4, column 8"):
        check("MATCH (n)\n/* two\nlines */ // and one\nRETURN secret(n)")
    assert check("MATCH (n) /* DROP */ RETURN n // ; DROP").text == "MATCH (`n` {corpus: $corpus}) RETURN `n` LIMIT 101"


def test_brackets_of_the_question_stay_so_that_it_means_the_same() -> None:
    text = check("MATCH (n) WHERE NOT (n.line = 1 OR n.line = 2) AND n.line - 3 > -(1 + 2) * 3 RETURN n").text
    assert "NOT ( `n`.line = 1 OR `n`.line = 2 ) AND `n`.line - 3 > - ( 1 + 2 ) * 3" in text
