"""What made an error go, and what only came after it."""

from typing import Any

import pytest

from tests.support.memory.feature import Feature, changed, decided, error

BROKEN = error("TypeError: total_price() takes 1 positional argument but 2 were given", "src/cart.py", 12)


def fixes_after(**fields: Any) -> list[str]:
    feature = Feature()
    feature.record(1, errors=(BROKEN,))
    feature.record(2, "Success", **fields)
    feature.distil()
    return [text for text in feature.texts if "went away" in text]


@pytest.mark.parametrize(
    "fields",
    [
        {"files_touched": changed("src/cart.py")},
        {"files_touched": changed("src/price.py")},
        {"files_touched": changed("tests/test_cart.py")},
        {"files_touched": changed("lib/tax.py"), "summary": "Gave total_price() its second argument."},
        {"files_touched": changed("lib/tax.py"), "decisions": decided(("Rewrote cart.py", None))},
    ],
)
def test_a_change_that_is_related_to_the_error_is_taken_for_its_fix(fields: dict[str, Any]) -> None:
    (fix,) = fixes_after(**fields)
    assert fields["files_touched"][0].path in fix
    assert "total_price() takes 1 positional argument" in fix


def test_a_change_elsewhere_is_not() -> None:
    assert fixes_after(files_touched=changed("docs/guide.md"), summary="Wrote the guide.") == []


def test_a_file_of_another_language_in_the_same_folder_is_not() -> None:
    assert fixes_after(files_touched=changed("src/main.rs"), summary="Fixed the build.") == []


def test_slips_with_the_agents_own_tools_teach_nothing() -> None:
    feature = Feature()
    for number in (1, 2):
        feature.record(number, errors=(error("String to replace not found in file.", "src/cart.py", tool="Edit"),))
    feature.distil()
    assert feature.texts == []


def test_where_nothing_was_changed_nothing_was_fixed() -> None:
    assert fixes_after(summary="Gave total_price() its second argument.") == []


def test_of_one_task_any_change_may_be_the_fix_and_of_two_tasks_none() -> None:
    for tasks, count in (((7, 7), 1), ((7, 8), 0)):
        feature = Feature()
        feature.record(1, task_id=tasks[0], errors=(BROKEN,))
        feature.record(2, "Success", task_id=tasks[1], files_touched=changed("lib/tax.py"))
        feature.distil()
        assert len([text for text in feature.texts if "went away" in text]) == count


def test_an_iteration_that_succeeded_left_no_error_behind_to_be_fixed() -> None:
    feature = Feature()
    feature.record(1, "Success", errors=(BROKEN,))
    feature.record(2, "Success", files_touched=changed("src/cart.py"))
    feature.distil()
    assert feature.texts == []


def test_without_a_success_the_same_tool_must_have_run_and_found_only_others() -> None:
    for others, count in (((error("E1: bad", "src/tax.py"),), 1), ((), 0), ((error("E1: bad", "src/cart.py"),), 0)):
        feature = Feature()
        feature.record(1, errors=(BROKEN,))
        feature.record(2, "Failure", files_touched=changed("src/cart.py"), errors=others)
        feature.distil()
        assert len([text for text in feature.texts if "went away" in text]) == count


def test_a_summary_that_does_not_say_what_was_done_is_not_quoted() -> None:
    (fix,) = fixes_after(files_touched=changed("src/cart.py"), summary="All 12 tests are green now!")
    assert fix.endswith("went away after changing src/cart.py.")


def test_events_never_contradict_each_other() -> None:
    feature = Feature()
    for number, message in ((1, "integer expected in src/cart.py"), (3, "integer unexpected in src/cart.py")):
        for again in (number, number + 1):
            feature.record(again, errors=(error(message, "src/cart.py"),))
    feature.distil()
    assert len(feature.learnings) == 2
    assert not feature.state.conflicts
