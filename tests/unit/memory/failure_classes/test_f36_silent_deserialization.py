"""F36, silent deserialization fallback: whatever a line says wrongly is an error with a name, and never another value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.errors import Corrupted
from sluice.contracts.memory.learning import LearningSource
from sluice.memory.journal import Journal, JournalEntry, read_journal
from sluice.memory.journal import entry as entries
from sluice.memory.journal.entry import MAX_LINE_BYTES
from tests.support.memory.entries import added, iteration, learning, line_of, said

GOOD = iteration(1)
PLAIN: dict[str, Any] = json.loads(GOOD.model_dump_json())


def changed(path: str, value: Any) -> dict[str, Any]:
    """The entry with another value at a dotted path; `...` takes the field away."""
    plain: dict[str, Any] = json.loads(json.dumps(PLAIN))
    *way, last = path.split(".")
    place: Any = plain
    for name in way:
        place = place[int(name) if isinstance(place, list) else name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return plain


WRONG: dict[str, tuple[dict[str, Any] | str, str]] = {
    "another version": (changed("version", 2), "version 2 is not known; this program reads version 1"),
    "a version as text": (changed("version", "1"), "version '1' is not known"),
    "no version, and so none that is known": (changed("version", None), "version None is not known"),
    "an unknown kind": (changed("body.kind", "iterations"), "body: Input tag 'iterations'"),
    "no kind": (changed("body.kind", ...), "body: Unable to extract tag using discriminator 'kind'"),
    "the body of another kind": (changed("body.kind", "learning"), "body.learning.learning: Field required"),
    "an unknown field": (changed("body.record.outcom", "Success"), "record.outcom: Extra inputs are not permitted"),
    "an unknown field of the entry": (changed("note", ""), "note: Extra inputs are not permitted"),
    "a missing field": (changed("body.record.outcome", ...), "record.outcome: Field required"),
    "a number as text": (changed("body.record.iteration_number", "7"), "record.iteration_number: Input should be"),
    "a number with a fraction": (changed("body.record.iteration_number", 1.0), "record.iteration_number: Input"),
    "a number as a truth value": (changed("body.record.task_id", True), "record.task_id: Input should be a valid int"),
    "a truth value as a number": (
        changed("body.record.stagnating", 1),
        "record.stagnating: Input should be a valid bo",
    ),
    "text as a number": (changed("body.record.summary", 7), "record.summary: Input should be a valid string"),
    "an outcome in small letters": (changed("body.record.outcome", "success"), "record.outcome: Input should be"),
    "an outcome that is null": (changed("body.record.outcome", None), "record.outcome: Input should be"),
    "a list as an object": (changed("body.record.errors", {}), "record.errors: Input should be a valid array"),
    "a time without a zone": (changed("at", "2026-02-07T14:30:00"), "at: Input should have timezone info"),
    "a time as a number": (changed("at", 1770474600), "at: Input should be a valid datetime"),
    "an id of another kind": (changed("id", "lrn_" + "0" * 24), "id: String should match pattern"),
    "an absolute path": (changed("body.record.files_touched.0.path", "/etc/passwd"), "path: '"),
    "a path that leads out": (changed("body.record.files_touched.0.path", "../a"), "path: '"),
    "a list as a line": ("[1]", "Invalid JSON"),
    "two objects in one line": (json.dumps(PLAIN) + json.dumps(PLAIN), "Invalid JSON"),
    "a number that JSON cannot carry": (changed("body.record.tokens_used", float("nan")), "tokens_used: "),
}


@pytest.mark.parametrize("what", WRONG)
def test_f36_a_wrong_line_is_told_by_the_name_of_its_field_and_the_lines_around_it_are_read(
    what: str, tmp_path: Path
) -> None:
    plain, told = WRONG[what]
    line = line_of(plain)
    with pytest.raises(Corrupted) as refused:
        JournalEntry.from_json_line(line[:-1])
    assert told in str(refused.value)
    journal = Journal(tmp_path, "auth")
    before, after = (line_of(json.loads(iteration(number).model_dump_json())) for number in (2, 3))
    journal.path.write_bytes(before + line + after)
    assert [one.record.iteration_number for one in journal.read().iterations.values()] == [2, 3]
    (problem,) = journal.problems()
    assert (problem.line, problem.offset) == (2, len(before))
    assert told in problem.problem


NO_LINES = {
    "an empty line": b"\n",
    "half a line": line_of(PLAIN)[:100] + b"\n",
    "zeros, as a power cut leaves them": b"\0" * 512 + b"\n",
    "a digit that flipped and still is JSON": line_of(PLAIN).replace(b'"iteration_number":1', b'"iteration_number":3'),
    "a line without a checksum": json.dumps(PLAIN).encode() + b"\n",
    "bytes that are no text": b"\xff\xfe" + line_of(PLAIN),
    "a line that is too long": b"x" * MAX_LINE_BYTES + b"\n",
}


@pytest.mark.parametrize("what", NO_LINES)
def test_f36_what_is_no_line_of_ours_is_reported_with_its_place(what: str, tmp_path: Path) -> None:
    journal = Journal(tmp_path, "auth")
    good = [line_of(json.loads(iteration(number).model_dump_json())) for number in (2, 3)]
    journal.path.write_bytes(good[0] + NO_LINES[what] + good[1])
    assert len(journal.read().iterations) == 2
    assert [(one.line, one.offset) for one in journal.problems()] == [(2, len(good[0]))]
    assert journal.append([iteration(4)]) == [True], "damage does not stop the recording"
    assert len(read_journal(journal.path).problems) == 1


def test_f36_an_equal_line_is_counted_once_and_another_of_its_id_is_reported(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "auth")
    first, other = line_of(PLAIN), line_of(changed("body.record.summary", "another"))
    journal.path.write_bytes(first + other + first)
    (kept,) = journal.read().iterations.values()
    assert kept.record.summary == PLAIN["body"]["record"]["summary"]
    assert [(one.line, one.problem) for one in journal.problems()] == [
        (2, f"entry {GOOD.id} stands before with another content")
    ]
    assert len(read_journal(journal.path).entries) == 1


def test_f36_an_entry_of_another_feature_or_about_nothing_is_reported_and_not_folded(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "auth")
    told = [
        iteration(1, "payments"),
        added(feature="payments"),
        said(entries.LearningReviewed(learning_id=learning().id, source=LearningSource.HUMAN)),
        iteration(2),
    ]
    journal.path.write_text("".join(f"{one.to_json_line()}\n" for one in told))
    state = journal.read()
    assert (len(state.iterations), len(state.learnings)) == (1, 0)
    assert [str(one).partition(": ")[2] for one in journal.problems()] == [
        "a record of feature 'payments' in the journal of 'auth'",
        "a learning of feature 'payments' in the journal of 'auth'",
        f"no learning {learning().id}",
    ]
    assert [one.line for one in journal.problems()] == [1, 2, 3]


TEXTS = ["a\nb", "\u2028\u2029\x85\x0b", "é 😀 \u0000", "\x7f\ufeff", '"}\\', ',"checksum":"0123456789abcdef"}']


@pytest.mark.parametrize("text", TEXTS)
def test_f36_every_text_comes_back_as_it_was_and_fills_one_line_of_ascii(text: str) -> None:
    entry = iteration(1, summary=text)
    line = entry.to_json_line()
    assert line.isascii()
    assert "\n" not in line
    assert JournalEntry.from_json_line(line) == entry
    assert JournalEntry.from_json_line(line.encode()) == entry
