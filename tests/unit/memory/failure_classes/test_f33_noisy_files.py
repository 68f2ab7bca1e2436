"""F33, noisy context: nothing is learned by rule of files that tools make or fetch."""

import pytest

from sluice.memory.learning.wording import should_exclude_from_auto_accumulation
from tests.support.memory.feature import Feature, changed, decided, error

NOISE = [
    "package-lock.json",
    "node_modules/a/index.js",
    "dist/main.js",
    ".git/index",
    ".ralph/db/memory/auth.jsonl",
    "build/x.py",
    "app.min.js",
]


@pytest.mark.parametrize("path", NOISE)
def test_f33_an_error_in_such_a_file_is_not_learned_however_often_it_comes(path: str) -> None:
    assert should_exclude_from_auto_accumulation(path)
    feature = Feature()
    for number in (1, 2, 3):
        feature.record(number, errors=(error("Unexpected token", path),))
    feature.distil()
    assert feature.learnings == []


def test_f33_such_a_file_is_never_named_as_the_fix() -> None:
    feature = Feature()
    feature.record(1, errors=(error("E1: bad", "src/a.py"),))
    feature.record(2, "Success", files_touched=changed(*NOISE), decisions=decided(("Ran the build", None)))
    feature.distil()
    assert feature.learnings == []


def test_f33_an_agents_own_lesson_on_such_a_file_is_kept_when_it_says_so_itself() -> None:
    feature = Feature()
    assert feature.learn("package-lock.json is written by npm 9; npm 11 rewrites it").verdict == "unique"
