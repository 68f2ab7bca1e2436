"""The filter language: the text says what the JSON says, and a wrong text is named by its place."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import ValidationError

from sluice.contracts.filters import MOST_DEEP, Where, WrongText, parse_where
from sluice.contracts.retrieval import Filters, Query

SAME = [
    ("trust >= .5", {"field": "trust", "gte": 0.5}),
    ("language in (\"en\", 'de')", {"field": "language", "in": ["en", "de"]}),
    ("not url prefix 'https://a/'", {"not": {"field": "url", "prefix": "https://a/"}}),
    ("metadata.team != 'a\\'b'", {"field": "metadata.team", "ne": "a'b"}),
    ("author exists", {"field": "author", "exists": True}),
    ("path not in ('a')", {"not": {"field": "path", "in": ["a"]}}),
    ("metadata.done = TRUE", {"field": "metadata.done", "eq": True}),
    ("fetched_at > 2026-05-01", {"field": "fetched_at", "gt": "2026-05-01"}),
    ("fetched_at <= 2026-05-01T10:00:00+02:00", {"field": "fetched_at", "lte": "2026-05-01T10:00:00+02:00"}),
    (
        "id = 'a' or id = 'b' and not (id = 'c' or id = 'd')",
        {
            "or": [
                {"field": "id", "eq": "a"},
                {
                    "and": [
                        {"field": "id", "eq": "b"},
                        {"not": {"or": [{"field": "id", "eq": "c"}, {"field": "id", "eq": "d"}]}},
                    ]
                },
            ]
        },
    ),
]


@pytest.mark.parametrize(("text", "value"), SAME)
def test_text_and_json_say_the_same_and_come_back_as_they_were(text: str, value: object) -> None:
    where = parse_where(text)
    assert where == Where.model_validate_json(json.dumps(value))
    assert json.loads(where.model_dump_json()) == value
    assert Query(query="q", where=text) == Query.model_validate_json(json.dumps({"query": "q", "where": value}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at character 1: expected a field, 'not' or '(', and the text ends"),
        ("trust >=", "at character 9: expected a value"),
        ("langage = 'en'", "at character 1: 'langage' is no field: did you mean language?"),
        ("id = 'a' and trust > 'x'", "at character 14: trust is a number"),
        ("(id = 'a'", "at character 10: expected ')'"),
        ("id = 'a' id = 'b'", "at character 10: expected 'and', 'or' or the end"),
        ("title > 'a'", "title is a text, which has no gt"),
        ("id = 'a", "at character 6: a text that does not end"),
        ("id ~ 'a'", "at character 4: '~', which means nothing here"),
        ("fetched_at > 2026-13-01", "is no moment"),
        ("not " * (MOST_DEEP + 1) + "id = 'a'", "levels deep"),
        ("id = 'a' or " * 1_000, "is longer than"),
    ],
)
def test_a_wrong_text_is_named_by_its_place_with_what_would_do(text: str, told: str) -> None:
    with pytest.raises(WrongText, match=re.escape(told)):
        parse_where(text)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"field": "id"},
        {"eq": "a"},
        {"field": "id", "eq": "a", "not": {"field": "id", "eq": "b"}},
        {"and": []},
        {"field": "metadata.", "eq": 1},
        {"field": "trust", "prefix": "a"},
        {"field": "id", "eq": 1},
        {"field": "metadata.n", "lt": True},
        {"field": "id", "like": "a"},
    ],
)
def test_a_condition_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        Where.model_validate_json(json.dumps(value))


def test_deep_json_is_refused_and_breaks_nothing() -> None:
    text = '{"not":' * 5_000 + '{"field":"id","eq":"a"}' + "}" * 5_000
    with pytest.raises(ValidationError):
        Where.model_validate_json(text)


def test_filters_are_a_short_form() -> None:
    filters = Filters(domains=("example.org",), languages=("EN",), metadata={"n": 3}, url_prefix="")
    long = "domain in ('example.org') and language in ('EN') and metadata.n = 3"
    assert filters.condition == parse_where(long)
    assert Query(query="q", filters=filters).condition == Query(query="q", where=long).condition
    assert Query(query="q").condition is None
