"""F21: "use X" and "don't use X" are a conflict to be looked at, never one learning."""

import pytest

from sluice.contracts.memory.learning import FeatureLearning
from sluice.memory.learning.deduplication import Conflict, check_deduplication


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ("Use mocks for the payment client", "Don't use mocks for the payment client"),
        ("Use mocks for the payment client", "Do not use mocks for the payment client"),
        ("Use mocks for the payment client", "Never use mocks for the payment client"),
        ("Enable caching in the settings of the test run", "Disable caching in the settings of the test run"),
        ("Run the migrations before the server starts", "Run the migrations after the server starts"),
    ],
)
def test_f21_a_learning_and_its_contrary_are_a_conflict(kept: str, text: str):
    existing = [FeatureLearning.auto_extracted(kept, 5, None)]
    found = check_deduplication(text, existing)
    assert isinstance(found, Conflict)
    assert (found.existing_index, found.new_text) == (0, text)
    assert found.why
