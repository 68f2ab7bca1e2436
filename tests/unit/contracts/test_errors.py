"""What is wrong with an input is told in words, with the field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from sluice.contracts.base import CorpusName
from sluice.contracts.errors import first_problem
from sluice.contracts.graph.api import CypherRequest
from sluice.contracts.memory.learning import LearningId, LearningText


class Given(BaseModel):
    corpus: CorpusName = "default"
    text: LearningText = "x"
    learning: LearningId = "lrn_" + "0" * 24


@pytest.mark.parametrize(
    ("given", "field", "told"),
    [
        ({"corpus": "../x"}, "corpus", "is no name: small letters"),
        ({"text": "  "}, "text", "is blank"),
        ({"learning": "lrn_7"}, "learning", "is no id of a learning"),
    ],
)
def test_a_pattern_is_told_in_words(given: dict[str, Any], field: str, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Given.model_validate(given)
    where, problem = first_problem(caught.value)
    assert where == field
    assert told in problem


@pytest.mark.parametrize("value", [{"b": 1}, [1, None], [[1]]])
def test_a_parameter_of_cypher_that_is_none_is_named(value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        CypherRequest.model_validate({"query": "RETURN $a", "parameters": {"a": value}})
    assert first_problem(caught.value)[1].startswith("$a is a text, a number")
    assert CypherRequest.model_validate({"query": "RETURN $a", "parameters": {"a": None, "b": [1, "x", True]}})
