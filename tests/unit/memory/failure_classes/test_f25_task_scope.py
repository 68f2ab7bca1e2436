"""F25, task-specific or feature-wide: a learning of one task is not offered to another."""

from tests.support.memory.feature import Feature


def test_f25_a_learning_of_a_task_is_offered_to_that_task_alone() -> None:
    feature = Feature()
    feature.learn("The form posts to /login", task_id=1)
    feature.learn("The port is 8080")
    assert [one.text for one in feature.state.active(1)] == ["The form posts to /login", "The port is 8080"]
    assert [one.text for one in feature.state.active(2)] == ["The port is 8080"]


def test_f25_the_same_words_for_two_tasks_are_two_learnings() -> None:
    feature = Feature()
    for task in (1, 2):
        assert feature.learn("The form posts to /login", task_id=task).verdict == "unique"
    assert [one.hit_count for one in feature.learnings] == [1, 1]


def test_f25_a_task_that_repeats_what_is_said_of_the_feature_counts_there() -> None:
    feature = Feature()
    feature.learn("The form posts to /login", iteration=1)
    assert feature.learn("The form posts to /login", iteration=2, task_id=2).verdict == "duplicate"


def test_f25_what_is_said_of_the_feature_contradicts_what_is_said_of_a_task() -> None:
    feature = Feature()
    feature.learn("Use the config cache in src/settings.py", task_id=1)
    assert feature.learn("Do not use the config cache in src/settings.py").verdict == "conflict"
