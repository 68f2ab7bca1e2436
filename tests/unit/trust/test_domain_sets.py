"""The checks of the marketing and code profiles against their evaluation sets."""

from __future__ import annotations

import pytest

from bench.profiles import code, marketing, share_right

LEAST = {
    "sentiment": 0.7,
    "disclosure": 0.95,
    "claims": 0.95,
    "channel": 0.95,
    "policy": 0.95,
    "rules": 0.95,
    "manifests": 1.0,
}


@pytest.mark.parametrize(("check", "judged"), [*marketing().items(), *code().items()])
def test_a_check_judges_as_the_set_says(check: str, judged: list[tuple[str, object, object]]) -> None:
    wrong = [one for one in judged if one[1] != one[2]]
    assert share_right(judged) >= LEAST[check], wrong


def test_no_sample_that_is_to_be_denied_is_let_through() -> None:
    assert [case for case, right, given in code()["policy"] if right == "denied" and given != "denied"] == []
    assert [case for case, right, given in code()["policy"] if right != "allowed" and given == "allowed"] == []
