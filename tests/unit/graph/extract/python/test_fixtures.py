"""pytest gives a test its parameters by the names of fixtures."""

from __future__ import annotations

from sluice.contracts.graph.model import EdgeType
from sluice.graph.extract.extract import extract_edges
from tests.support.graph.corpus import graph_document


def test_the_parameters_of_tests_and_fixtures_refer_to_fixtures_and_those_of_others_do_not() -> None:
    text = (
        "import pytest\n\n@pytest.fixture\ndef shop(base):\n    return base.open()\n\n"
        "def test_it(shop):\n    shop.sell()\n\ndef helper(other):\n    other.sell()\n"
    )
    edges = extract_edges(graph_document("tests/test_shop.py", text))
    named = {edge.target.key for edge in edges if edge.type is EdgeType.REFERS_TO and ":?." in edge.target.key}
    assert {"python:?.base", "python:?.shop"} <= named
    assert "python:?.other" not in named
