"""F11: a learning that is said again is counted, not added again."""

from sluice.contracts.memory.learning import FeatureLearning
from sluice.memory.learning.deduplication import Conflict, Duplicate, Unique, check_deduplication


def _kept(*texts: str) -> list[FeatureLearning]:
    return [FeatureLearning.auto_extracted(text, 5, None) for text in texts]


def test_f11_a_learning_in_nearly_the_same_words_is_a_duplicate_of_the_first():
    kept = _kept("Run the linter before each commit", "Auth middleware expects User object not userId")
    found = check_deduplication("Auth middleware expects User object instead of userId", kept)
    assert isinstance(found, Duplicate)
    assert found.existing_index == 1


def test_f11_the_same_text_again_is_a_duplicate_whatever_its_case_blanks_and_full_stop():
    kept = _kept("Use `pathlib` for paths.")
    assert isinstance(check_deduplication("use pathlib  for paths", kept), Duplicate)


def test_f11_near_texts_about_another_identifier_or_number_stay_apart():
    kept = _kept("The worker reads its timeout of 30 s from worker_config.py at the start of each run")
    for text in (
        "The worker reads its timeout of 300 s from worker_config.py at the start of each run",
        "The worker reads its timeout of 30 s from server_config.py at the start of each run",
        "The worker reads its timeout of 30 ms from worker_config.py at the start of each run",
    ):
        assert isinstance(check_deduplication(text, kept), Conflict)


def test_f11_nothing_kept_or_another_subject_is_unique():
    assert check_deduplication("Use pathlib for paths", []) == Unique()
    assert check_deduplication("Use pathlib for paths", _kept("The API returns 404 for unknown ids")) == Unique()
