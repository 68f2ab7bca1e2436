"""What is learned of iterations by rule."""

from sluice.contracts.memory.learning import LearningSource
from sluice.contracts.memory.model import ErrorType
from tests.support.memory.feature import Feature, changed, decided, error

MISSING = "AttributeError: 'NoneType' object has no attribute 'user'"


def test_an_error_of_two_iterations_is_learned_with_both_and_its_file() -> None:
    feature = Feature()
    feature.record(1, errors=(error(MISSING, "src/auth.py", 41),))
    feature.record(2, errors=(error(MISSING, "src/auth.py", 44),))
    feature.distil()
    (one,) = feature.learnings
    assert MISSING in one.text
    assert "src/auth.py" in one.text
    assert (one.iteration, one.hit_count, one.source) == (1, 2, LearningSource.AUTO)
    assert "iterations 1 and 2" in one.reason


def test_an_error_that_comes_a_third_time_is_counted() -> None:
    feature = Feature()
    for number in range(1, 5):
        feature.record(number, errors=(error(MISSING, "src/auth.py", 40 + number),))
        feature.distil()
    assert [one.hit_count for one in feature.learnings] == [4]


def test_distilling_at_once_and_one_by_one_gives_the_same_learnings() -> None:
    at_once, one_by_one = Feature(), Feature()
    for number in range(1, 5):
        for feature in (at_once, one_by_one):
            feature.record(number, errors=(error(MISSING, "src/auth.py", number),))
        one_by_one.distil()
    at_once.distil()
    assert [(one.id, one.hit_count) for one in at_once.learnings] == [
        (one.id, one.hit_count) for one in one_by_one.learnings
    ]


def test_a_second_distilling_adds_nothing() -> None:
    feature = Feature()
    feature.record(1, errors=(error(MISSING, "src/auth.py"),))
    feature.record(
        2, "Success", files_touched=changed("src/auth.py"), decisions=decided(("Check for None", "it is optional"))
    )
    assert feature.distil()
    assert feature.distil() == []
    feature.state.distilled.clear()
    assert [entry.body.kind for entry in feature.distil()] == []


def test_what_made_an_error_go_is_learned() -> None:
    feature = Feature()
    feature.record(1, errors=(error(MISSING, "src/auth.py", 41),))
    feature.record(
        2, "Success", files_touched=changed("src/middleware.py", "uv.lock"),
        decisions=decided(("Set request.user before the view runs", "the view reads it")),
    )  # fmt: skip
    feature.distil()
    fix = next(text for text in feature.texts if "went away" in text)
    assert MISSING in fix
    assert "src/auth.py" in fix
    assert "src/middleware.py" in fix
    assert "Set request.user before the view runs" in fix
    assert "uv.lock" not in fix


def test_an_error_that_is_still_there_was_not_fixed() -> None:
    feature = Feature()
    feature.record(1, errors=(error(MISSING, "src/auth.py", 41),))
    feature.record(2, "Success", files_touched=changed("src/auth.py"), errors=(error(MISSING, "src/auth.py", 52),))
    feature.distil()
    assert not [text for text in feature.texts if "went away" in text]


def test_decisions_with_reasons_of_an_iteration_that_succeeded_are_learned() -> None:
    feature = Feature()
    feature.record(
        1, "Success", decisions=decided(("Keep sessions in Valkey", "workers share them"), ("Rename x", None))
    )
    feature.record(2, "Failure", decisions=decided(("Use a global", "it is short")))
    feature.distil()
    assert feature.texts == ["Keep sessions in Valkey, because workers share them"]


def test_a_decision_of_the_first_person_is_told_as_an_observation() -> None:
    feature = Feature()
    feature.record(1, "Success", decisions=decided(("I'll use Decimal instead of float.", "sums of floats drift")))
    feature.distil()
    assert feature.texts == ["Decided to use Decimal instead of float, because sums of floats drift"]


def test_lessons_that_the_agent_states_are_its_own_learnings() -> None:
    feature = Feature()
    summary = (
        "Fixed the fixture.\n**Lesson:** the tests in tests/api need `make seed` first.\n"
        "Note for next time: ruff rewrites imports on save\nLessons learned:\n- mypy reads src/ only, not tests/\n- The port 8081 is taken by the mock\n"
    )
    feature.record(3, "Partial", summary=summary)
    feature.distil()
    assert feature.texts == [
        "The tests in tests/api need `make seed` first.",
        "Ruff rewrites imports on save",
        "Mypy reads src/ only, not tests/",
        "The port 8081 is taken by the mock",
    ]
    assert {(one.source, one.iteration) for one in feature.learnings} == {(LearningSource.AGENT, 3)}


def test_a_correction_that_the_agent_states_retires_what_it_corrects() -> None:
    feature = Feature()
    feature.learn("Sessions are kept in Redis", iteration=1)
    feature.record(2, "Success", summary="Fixed the login.\nCorrection: sessions are kept in Postgres, not in Redis.")
    feature.distil()
    wrong, right = feature.learnings
    assert right.text == "Correction: sessions are kept in Postgres, not in Redis."
    assert wrong.retired_by == right.id


def test_refusals_and_standstill_are_learned_at_once() -> None:
    feature = Feature()
    feature.record(1, errors=(error("git push was denied by the user", None, kind=ErrorType.PERMISSION, tool="Bash"),))
    feature.record(
        2, stagnating=True, task_title="Fix login", summary="Reran the tests with a longer timeout. They fail."
    )
    feature.distil()
    assert feature.texts[0].startswith('Not permitted here: Bash: "git push was denied by the user"')
    assert (
        feature.texts[1]
        == 'Trying the same once more on "Fix login" did not help: Reran the tests with a longer timeout.'
    )


def test_nothing_is_learned_of_files_that_teach_nothing() -> None:
    feature = Feature()
    for number in (1, 2):
        feature.record(number, errors=(error("SyntaxError: invalid syntax", "node_modules/x/index.js"),))
    feature.distil()
    assert feature.learnings == []


def test_an_error_of_two_tasks_is_learned_for_the_whole_feature() -> None:
    feature = Feature()
    feature.record(1, task_id=4, errors=(error(MISSING, "src/auth.py"),))
    feature.record(2, task_id=4, errors=(error(MISSING, "src/auth.py"),))
    feature.distil()
    assert [one.task_id for one in feature.learnings] == [4]
    feature.record(3, task_id=5, errors=(error(MISSING, "src/auth.py"),))
    feature.distil()
    assert [one.task_id for one in feature.state.active(5)] == [None]
    assert [one.task_id for one in feature.state.active()] == [None]
