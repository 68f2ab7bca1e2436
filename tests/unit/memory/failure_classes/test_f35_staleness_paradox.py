"""F35, the staleness paradox: a learning that is not needed any more may be the one that works, so few are pruned."""

from datetime import timedelta

import pytest

from sluice.contracts.memory.learning import LearningSource, LearningState
from sluice.memory.journal.entry import JournalEntry, LearningReviewed, LearningWeighed
from sluice.memory.learning.edit import OLD, OLD_ITERATIONS, prunable, prune
from tests.support.memory.feature import Feature

TEXT = "The port is 8080"


def old(source: LearningSource = LearningSource.AUTO) -> Feature:
    """A feature whose only learning is as old as it takes."""
    feature = Feature()
    feature.learn(TEXT, source, iteration=1)
    feature.record(1 + OLD_ITERATIONS)
    feature.at += OLD
    return feature


def test_f35_what_was_made_by_rule_and_never_met_again_is_put_aside_and_comes_back_when_it_is() -> None:
    feature = old()
    feature.fold(prune(feature.state, feature.at))
    assert feature.learnings[0].state is LearningState.PRUNED
    feature.learn(TEXT + ".", LearningSource.AUTO, iteration=30)
    assert (feature.learnings[0].state, feature.learnings[0].hit_count) == (LearningState.ACTIVE, 2)


@pytest.mark.parametrize("source", [LearningSource.AGENT, LearningSource.HUMAN, LearningSource.OPUS_REVIEWED])
def test_f35_what_somebody_said_is_never_pruned(source: LearningSource) -> None:
    assert prunable(old(source).state, old().at + timedelta(days=3_650)) == []


def test_f35_young_learnings_stay() -> None:
    feature = old()
    assert prunable(feature.state, feature.at - timedelta(seconds=1)) == []
    few = Feature()
    few.learn(TEXT, LearningSource.AUTO, iteration=2)
    few.record(1 + OLD_ITERATIONS)
    assert prunable(few.state, few.at + timedelta(days=3_650)) == []


def test_f35_what_was_met_twice_used_reviewed_or_disputed_stays() -> None:
    twice, used, reviewed, disputed = old(), old(), old(), Feature()
    twice.learn(TEXT + ".", LearningSource.AUTO, iteration=2)
    iteration = used.record(2)
    used.fold(
        [JournalEntry.of(LearningWeighed(learning_id=used.learnings[0].id, entry_id=iteration, used=True), key="w")]
    )
    reviewed.fold(
        [JournalEntry.of(LearningReviewed(learning_id=reviewed.learnings[0].id, source=LearningSource.HUMAN), key="r")]
    )
    for number, text in enumerate(("Use the config cache in a.py", "Do not use the config cache in a.py"), start=1):
        disputed.learn(text, LearningSource.AUTO, iteration=number)
    disputed.record(99)
    for feature in (twice, used, reviewed, disputed):
        assert prunable(feature.state, feature.at + timedelta(days=3_650)) == []
        assert prune(feature.state, feature.at + timedelta(days=3_650)) == []


def test_f35_pruning_twice_adds_nothing() -> None:
    feature = old()
    feature.fold(prune(feature.state, feature.at))
    assert prune(feature.state, feature.at) == []
