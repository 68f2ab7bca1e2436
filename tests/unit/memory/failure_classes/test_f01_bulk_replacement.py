"""F1, bulk replacement of learnings: they are patched one by one and appended to; a list replaces nothing."""

import pytest

from contracts.errors import InvalidInput
from memory.learning.edit import read_patch
from tests.support.learnings import Feature


@pytest.mark.parametrize("data", [[], [{"text": "a"}], {"learnings": []}, {"replace": [{"text": "a"}]}])
def test_f01_bulk_replacement_is_refused_and_the_way_to_go_is_named(data: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_patch(data)
    assert refused.value.field == "learnings"
    assert "PATCH /v1/memory/learnings/{id}" in refused.value.remedy


def test_f01_a_patch_of_one_learning_is_read_and_a_misspelt_field_is_named() -> None:
    assert read_patch({"text": "Use b"}).text == "Use b"
    with pytest.raises(InvalidInput) as refused:
        read_patch({"txt": "Use b"})
    assert refused.value.field == "txt"


def test_f01_adding_learnings_removes_none() -> None:
    feature = Feature()
    texts = [f"The module src/part_{number}.py owns table t{number}" for number in range(30)]
    for text in texts:
        feature.learn(text)
    assert feature.texts == texts
