"""F1, bulk replacement of learnings: they are patched one by one and appended to; a list replaces nothing."""

from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.memory.learning.edit import read_patch
from sluice.memory.memory import Memory
from sluice.memory.sanitise import sanitize_learning_text
from tests.support.memory.feature import Feature


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


def test_f01_an_embedded_memory_refuses_a_list_where_a_patch_belongs(tmp_path: Path) -> None:
    memory = Memory(tmp_path, "/project", sanitise=sanitize_learning_text)
    learning = memory.learn("auth", "The port is 8080", "compose.yaml").learning
    assert learning is not None
    with pytest.raises(InvalidInput, match="not replaced as a whole"):
        memory.patch("auth", learning.id, [{"text": "The port is 80"}])  # type: ignore[arg-type]
    assert memory.learnings("auth").learnings == (learning,)
