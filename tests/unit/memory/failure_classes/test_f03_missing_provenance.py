"""F3, missing provenance: every learning says from whom it is, from which iteration and when."""

from sluice.contracts.memory.learning import LearningSource
from tests.support.memory.feature import START, Feature, error


def test_f03_every_way_to_a_learning_gives_it_source_iteration_time_and_reason() -> None:
    feature = Feature()
    for number in (1, 2):
        feature.record(
            number, errors=(error("E1: bad", "src/a.py"),), summary=f"Lesson: step {number} needs the seed data."
        )
    feature.distil()
    feature.learn("The queue is Valkey", LearningSource.HUMAN)
    assert {one.source for one in feature.learnings} == {
        LearningSource.AUTO,
        LearningSource.AGENT,
        LearningSource.HUMAN,
    }
    for one in feature.learnings:
        assert one.reason
        assert one.timestamp == START
        assert one.iteration >= 1 or one.source is LearningSource.HUMAN


def test_f03_what_an_agent_says_outside_of_a_record_is_of_the_iteration_that_runs() -> None:
    feature = Feature()
    feature.record(4)
    result = feature.learn("The queue is Valkey", LearningSource.AGENT)
    assert result.learning is not None
    assert result.learning.iteration == 5


def test_f03_a_repetition_keeps_its_own_provenance() -> None:
    feature = Feature()
    feature.learn("The queue is Valkey", iteration=1, reason="compose.yaml")
    feature.learn("The queue is Valkey.", iteration=6, reason="settings.py", task_id=3)
    (repeated,) = feature.state.repetitions.values()
    assert (repeated.iteration, repeated.reason, repeated.source, repeated.task_id) == (
        6,
        "settings.py",
        LearningSource.AGENT,
        3,
    )
    assert (feature.learnings[0].iteration, feature.learnings[0].reason) == (1, "compose.yaml")
