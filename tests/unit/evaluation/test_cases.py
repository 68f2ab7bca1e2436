"""The reader of cases: what it takes, and that every complaint names line and field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.evaluation.retrieval.cases import Case, fingerprint, read_cases, sample_cases
from tests.support.evaluation_samples import cases


def written(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def test_names_in_a_list_are_of_grade_one_and_in_an_object_of_their_own(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"id": "q1", "query": "leases?", "relevant": ["a", "b"], "filters": {"languages": ["en"]}},
        "",
        {"query": "blobs?", "relevant": {"c": 2, "d": 0}},
    )
    first, second = read_cases(path)
    assert (first.id, first.relevant, first.filters.languages) == ("q1", {"a": 1, "b": 1}, ("en",))
    assert (second.relevant, second.answers) == ({"c": 2, "d": 0}, {"c"})


def test_a_case_without_an_id_is_known_by_its_question_wherever_it_stands(tmp_path: Path) -> None:
    one, two = {"query": "leases?", "relevant": ["a"]}, {"query": "blobs?", "relevant": ["b"]}
    forward, backward = read_cases(written(tmp_path, one, two)), read_cases(written(tmp_path, two, one))
    assert {case.id for case in forward} == {case.id for case in backward}
    assert fingerprint(forward) == fingerprint(backward)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"query": "x", "relevant": ["a"], "relevnat": []}, "relevnat"),
        ({"relevant": ["a"]}, "id"),
        ({"query": "", "relevant": ["a"]}, "query"),
        ({"query": "x"}, "relevant"),
        ({"query": "x", "relevant": []}, "relevant"),
        ({"query": "x", "relevant": ["a", "a"]}, "relevant"),
        ({"query": "x", "relevant": [1]}, "relevant"),
        ({"query": "x", "relevant": {"a": 0}}, "relevant"),
        ({"query": "x", "relevant": {"a": 1.5}}, "relevant.a"),
        ({"query": "x", "relevant": {"a": True}}, "relevant.a"),
        ({"query": "x", "relevant": "a"}, "relevant"),
        ({"query": "x", "relevant": ["a"], "filters": {"langauges": []}}, "filters.langauges"),
        ({"id": "good", "query": "x", "relevant": ["a"]}, "id"),
        ("[1]", "not an object"),
        ("{", "not JSON"),
        ('{"query": "\\ud800", "relevant": ["a"]}', "not UTF-8"),
    ],
)
def test_a_malformed_line_is_refused_by_number_and_field(tmp_path: Path, line: object, told: str) -> None:
    path = written(tmp_path, {"id": "good", "query": "x", "relevant": ["a"]}, line)
    with pytest.raises(InvalidInput) as refused:
        read_cases(path)
    assert refused.value.field == f"{path}:2"
    assert told in refused.value.problem


def test_a_file_without_a_case_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no case in it"):
        read_cases(written(tmp_path, ""))
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_cases(tmp_path / "none.jsonl")


def test_a_sample_is_the_same_whatever_the_order_and_a_smaller_one_is_part_of_it() -> None:
    every = cases(50)
    chosen = {case.id for case in sample_cases(every, 10)}
    assert len(chosen) == 10
    assert {case.id for case in sample_cases(every[::-1], 10)} == chosen
    assert {case.id for case in sample_cases(every, 4)} < chosen
    assert sample_cases(every, 99) == every


def test_the_fingerprint_tells_any_change_of_question_or_judgment() -> None:
    one = Case(id="q", query="x", relevant={"a": 1})
    others = [
        one.model_copy(update=change) for change in ({"query": "y"}, {"relevant": {"a": 2}}, {"relevant": {"b": 1}})
    ]
    assert len({fingerprint([case]) for case in [one, *others]}) == 4
