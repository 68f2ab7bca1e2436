"""What a new learning is beside those that are kept, with and without models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.errors import BudgetExhausted, Unavailable
from sluice.contracts.memory.learning import FeatureLearning
from sluice.memory.learning.deduplication import MOST_JUDGED, Conflict, Duplicate, Unique, check_deduplication
from sluice.memory.ports import Polarity

NEAR = ("Flush the write buffer in the nightly export", "Empty the write buffer in the nightly export job")


def kept(*texts: str) -> list[FeatureLearning]:
    return [FeatureLearning.auto_extracted(text, 5, None) for text in texts]


class Judge:
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self, answer: Polarity | Exception | None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str]] = []

    def __call__(self, one: str, other: str) -> Polarity | None:
        self.asked.append((one, other))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_duplicate_goes_before_a_conflict_with_another():
    existing = kept("Never use mocks in tests", "Run black on commit", "Use mocks in tests")
    found = check_deduplication("use `mocks` in tests.", existing)
    assert isinstance(found, Duplicate)
    assert found.existing_index == 2


def test_a_conflict_names_the_other_and_why():
    found = check_deduplication("Never use mocks in tests", kept("Run black on commit", "Use mocks in tests"))
    assert found == Conflict(1, "Never use mocks in tests", "negation")


def test_what_is_near_and_says_something_else_is_linked():
    existing = kept("Run black on commit", "The worker writes its log to the shared volume")
    assert check_deduplication("The log of the worker is on the shared volume", existing) == Unique(near_index=1)


def test_a_long_text_on_what_a_short_one_says_is_near_to_it():
    text = (
        "docker build takes 4 minutes on the new runners, as their disks are local and the layers are kept in a cache"
    )
    assert isinstance(check_deduplication(text, kept("A docker build takes 9 minutes.")), Conflict)


def test_another_subject_is_linked_to_nothing():
    assert check_deduplication("The API answers 404", kept("Run black on commit")) == Unique()


def test_a_judge_is_asked_about_the_near_ones_that_the_words_leave_open_and_merges_nothing():
    judge = Judge("same")
    found = check_deduplication(NEAR[1], kept("Run black on commit", NEAR[0]), judge=judge)
    assert found == Unique(near_index=1)
    assert judge.asked == [(NEAR[1], NEAR[0])]


def test_a_judges_opposite_is_a_conflict():
    found = check_deduplication(NEAR[1], kept(NEAR[0]), judge=Judge("opposite"))
    assert isinstance(found, Conflict)


@pytest.mark.parametrize("answer", [None, "different", Unavailable("away"), BudgetExhausted("spent")])
def test_a_judge_that_fails_or_does_not_know_leaves_both(answer: Polarity | Exception | None):
    assert check_deduplication(NEAR[1], kept(NEAR[0]), judge=Judge(answer)) == Unique(near_index=0)


def test_a_judge_is_not_asked_where_the_words_decide():
    judge = Judge("same")
    existing = kept("Set the pool size of the worker to 30", "Use mocks in tests")
    assert isinstance(check_deduplication("Set the pool size of the worker to 50", existing, judge=judge), Conflict)
    assert isinstance(check_deduplication("Never use mocks in tests", existing, judge=judge), Conflict)
    assert isinstance(check_deduplication("use mocks in tests.", existing, judge=judge), Duplicate)
    assert judge.asked == []


def test_a_judge_is_asked_about_few_pairs():
    judge = Judge(None)
    existing = kept(*(f"Flush the {word} buffer in the nightly export" for word in ("sort", "page", "join", "log")))
    check_deduplication(NEAR[1], existing, judge=judge)
    assert 0 < len(judge.asked) <= MOST_JUDGED


@given(st.text(min_size=1, max_size=200).filter(lambda text: text.strip()))
def test_any_text_is_a_duplicate_of_itself(text: str):
    assert isinstance(check_deduplication(text, kept("Run black on commit", text)), Duplicate)


@given(st.text(max_size=60), st.sampled_from(["Use mocks in tests", "Set the limit to 30", "Call close() before exit"]))
def test_a_text_that_says_not_is_never_merged_with_one_that_does_not(tail: str, text: str):
    found = check_deduplication(f"Do not {text[0].lower()}{text[1:]}", kept(text, f"{text} {tail}"))
    assert not isinstance(found, Duplicate)
