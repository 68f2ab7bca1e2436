"""Whatever text it gets: the guard raises InvalidInput, or writes what parses again to allowed clauses alone."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.contracts.errors import InvalidInput
from sluice.contracts.graph.model import EdgeType, NodeLabel
from sluice.graph.cypher.guard import guard
from sluice.graph.cypher.parse import LADYBUG, NEO4J, WRITTEN_OUT, dialect_named, parse
from tests.support.graph.hostile_cypher import BOUNDED, REFUSED

WORDS = sorted(
    {word for query in (*BOUNDED, *(query for query, _ in REFUSED if len(query) < 200)) for word in re.findall(r"\w+|\W", query)}
    | {"MATCH", "(n)", "RETURN", "n", "WHERE", "WITH", "*1..3", "-[:LINKS_TO]->", "AS", "x", "LIMIT", "'a'", "$p", ", "}
)  # fmt: skip
RULES_NEVER_WRITTEN = {
    "updatingStatement", "createSt", "mergeSt", "deleteSt", "setSt", "removeSt", "standaloneCall", "queryCallSt",
    "unionSt", "patternComprehension", "stringLit", "charLit",
}  # fmt: skip
FUNCTIONS = {*dialect_named(NEO4J).functions, *WRITTEN_OUT, *dialect_named(NEO4J).shortest}
FUNCTIONS_OF_LADYBUG = {
    name
    for entry in dialect_named(LADYBUG).functions.values()
    for text in entry.written
    for name in re.findall(r"(\w+)\(", text)
} | {"any", "all", "none", "single", "list_filter", "list_transform", "list_slice", "regexp_full_match"}
TRIES = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
GIVEN = {"p": 1, "ids": ["a"], "x": "y", "long": "", "injection": ""}


def look_at(query: str) -> None:
    statements = []
    for dialect in (NEO4J, LADYBUG):
        # Anything but InvalidInput fails the test.
        with suppress(InvalidInput):
            statements.append(guard(query, GIVEN, "c", 9, dialect).text)
    if len(statements) < 2:
        return  # a dialect may lack what the other has
    server, embedded = statements
    for text in statements:
        assert text.isascii()
        assert not set(re.sub(r"'[A-Za-z0-9_./:@ -]*'", "", text)) & set(';\\"#@?&~!'), text
        assert re.search(r" LIMIT \d+$", text)
    assert "'" not in server
    for name in re.findall(r"(\w+) ?\(", embedded):
        assert name in FUNCTIONS_OF_LADYBUG or name.isupper(), embedded
    for branch in parse(server):
        for tree in branch.trees:
            assert_allowed(tree)


def assert_allowed(node: Any) -> None:
    """The tree of what was written holds no clause, function, label or type beyond the lists."""
    if not hasattr(node, "getRuleIndex"):
        return
    rule = node.parser.ruleNames[node.getRuleIndex()]
    assert rule not in RULES_NEVER_WRITTEN
    if rule == "functionInvocation":
        assert node.invocationName().getText().lower() in FUNCTIONS
    if rule == "nodeLabels":
        assert set(re.split("[:|]", node.getText()[1:])) <= set(NodeLabel)
    if rule == "relationshipTypes":
        assert {name.getText() for name in node.name()} <= set(EdgeType)
    if rule == "nodePattern":
        assert node.properties().mapLit().mapPair()[0].getText() == "corpus: $corpus"
    if rule == "rangeLit":
        assert int(node.getText().rpartition("..")[2]) <= 10
    for child in node.getChildren():
        assert_allowed(child)


@TRIES
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    look_at(text)


@TRIES
@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_words_of_hostile_statements_in_any_order(words: list[str]) -> None:
    look_at(" ".join(words))
    look_at("MATCH (n) RETURN " + "".join(words))


@TRIES
@given(st.sampled_from(BOUNDED), st.integers(0, 200), st.text(max_size=8) | st.sampled_from(WORDS))
def test_allowed_statements_with_something_put_in(query: str, at: int, text: str) -> None:
    look_at(query[:at] + text + query[at:])
    look_at(query[:at] + " " + text + " " + query[at:])
