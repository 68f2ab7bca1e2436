"""F31, missing context: a learning says why it exists, and cannot be added without."""

import pytest
from pydantic import ValidationError

from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.api import LearningPatch
from sluice.memory.learning.deduplication import check_deduplication
from sluice.memory.learning.edit import patch_learning
from sluice.memory.sanitise import sanitize_learning_text
from tests.support.memory.feature import Feature, error


@pytest.mark.parametrize("reason", ["", " ", "\n\t"])
def test_f31_no_learning_without_a_reason(reason: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Feature().learn("The port is 8080", reason=reason)
    assert refused.value.field == "reason"
    assert refused.value.remedy


def test_f31_a_patch_takes_no_reason_away() -> None:
    feature = Feature()
    feature.learn("The port is 8080")
    with pytest.raises((InvalidInput, ValidationError)):
        patch_learning(
            feature.state,
            feature.learnings[0].id,
            LearningPatch(reason=" "),
            compare=check_deduplication,
            sanitise=sanitize_learning_text,
            at=feature.at,
        )


def test_f31_a_distilled_learning_names_the_iterations_that_it_was_observed_in() -> None:
    feature = Feature()
    for number in (3, 8):
        feature.record(number, errors=(error("E1: bad", "src/a.py"),))
    feature.distil()
    assert feature.learnings[0].reason == "Test error seen in iterations 3 and 8"
