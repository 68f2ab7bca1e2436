from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.memory.journal import FeatureMemory, Journal, JournalEntry, features_in, read_journal
from sluice.memory.journal import entry as entries
from tests.support.memory.entries import added, iteration, learning, said


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "db" / "memory", "auth")


def test_what_was_appended_is_read_by_another(journal: Journal) -> None:
    assert journal.append([iteration(1), iteration(2)]) == [True, True]
    state = Journal(journal.path.parent, "auth").read()
    assert [one.record.iteration_number for one in state.in_order()] == [1, 2]
    assert features_in(journal.path.parent) == ["auth"]


def test_an_absent_journal_is_empty_and_is_not_made_by_reading(journal: Journal) -> None:
    assert journal.read() == FeatureMemory("auth")
    assert journal.problems() == ()
    assert not journal.path.parent.exists()


def test_an_entry_whose_id_is_known_is_not_written_again(journal: Journal) -> None:
    journal.append([iteration(1)])
    size = journal.path.stat().st_size
    assert journal.append([iteration(1)]) == [False]
    assert Journal(journal.path.parent, "auth").append([iteration(1)]) == [False]
    assert journal.path.stat().st_size == size
    assert journal.append([iteration(2), iteration(2), iteration(1), iteration(3)]) == [True, False, False, True]


def test_a_transaction_decides_on_what_others_have_written(journal: Journal) -> None:
    journal.append([iteration(1)])
    Journal(journal.path.parent, "auth").append([iteration(2)])
    state, new = journal.transact(lambda state: [iteration(state.next_iteration())])
    assert [one.record.iteration_number for one in state.in_order()] == [1, 2, 3]
    assert new == [iteration(3)]


def test_a_state_that_was_handed_out_never_changes(journal: Journal) -> None:
    journal.append([iteration(1)])
    before = journal.read()
    journal.append([iteration(2), added()])
    assert (len(before.iterations), len(before.learnings)) == (1, 0)
    assert len(journal.read().iterations) == 2


def test_nothing_is_written_when_deciding_fails_or_one_entry_does_not_fit(journal: Journal) -> None:
    def fail(_: FeatureMemory) -> list[JournalEntry]:
        raise KeyError("decided badly")

    with pytest.raises(KeyError):
        journal.transact(fail)
    with pytest.raises(InvalidInput, match="feature 'payments' in the journal of 'auth'"):
        journal.append([iteration(1), iteration(2, "payments")])
    unknown = said(entries.LearningRepeated(learning_id=learning().id, text="a", reason="b", source="Auto"))
    with pytest.raises(InvalidInput, match=f"no learning {learning().id}"):
        journal.append([unknown])
    assert journal.path.read_bytes() == b""
    assert journal.append([added(), unknown]) == [True, True], "the learning stands before its repetition"


def test_reading_goes_on_where_it_ended_and_begins_anew_when_the_file_is_another(journal: Journal) -> None:
    journal.append([iteration(1)])
    journal.append([iteration(2)])
    reader = Journal(journal.path.parent, "auth")
    first = reader.read()
    assert reader.read() is first
    journal.append([iteration(3)])
    assert len(reader.read().iterations) == 3
    lines = journal.path.read_bytes().splitlines(keepends=True)
    journal.path.write_bytes(b"".join([lines[2], lines[0]]))  # in place, shorter
    assert [one.record.iteration_number for one in reader.read().iterations.values()] == [3, 1]
    other = journal.path.with_suffix(".new")
    other.write_bytes(lines[1])
    other.replace(journal.path)
    assert [one.record.iteration_number for one in reader.read().iterations.values()] == [2]
    journal.path.unlink()
    assert reader.read().iterations == {}


def test_what_is_written_while_the_file_is_replaced_is_not_called_recorded(journal: Journal) -> None:
    def replace_it(_: FeatureMemory) -> list[JournalEntry]:
        other = journal.path.with_suffix(".new")
        other.write_bytes(journal.path.read_bytes())
        other.replace(journal.path)
        return [iteration(2)]

    journal.append([iteration(1)])
    with pytest.raises(Unavailable, match="was replaced by another file"):
        journal.transact(replace_it)
    assert journal.append([iteration(2)]) == [True]


def test_threads_share_a_journal(journal: Journal) -> None:
    def write(first: int) -> None:
        for number in range(first, first + 5):
            journal.append([iteration(number)])
            assert number in [one.record.iteration_number for one in journal.read().in_order()]

    threads = [threading.Thread(target=write, args=(1 + 5 * which,)) for which in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(one.record.iteration_number for one in journal.read().in_order()) == list(range(1, 21))
    assert len(read_journal(journal.path).entries) == 20


def test_a_lock_that_another_process_holds_is_a_clear_error(journal: Journal) -> None:
    journal.append([iteration(1)])
    waiting = Journal(journal.path.parent, "auth", lock_timeout_seconds=0.01)
    with FileLock(f"{journal.path}.lock"), pytest.raises(Unavailable, match="another process holds"):
        waiting.append([iteration(2)])
    assert len(waiting.read().iterations) == 1
    assert waiting.append([iteration(2)]) == [True]


def test_a_forked_process_holds_no_lock_of_its_parent(journal: Journal) -> None:
    ours, theirs = os.pipe()

    def fork(_: FeatureMemory) -> list[JournalEntry]:
        child = os.fork()
        if child == 0:
            os.close(theirs)
            os.read(ours, 1)  # until the parent has ended
            os._exit(0)
        children.append(child)
        return [iteration(1)]

    children: list[int] = []
    journal.transact(fork)
    try:
        assert Journal(journal.path.parent, "auth", lock_timeout_seconds=1.0).append([iteration(2)]) == [True]
    finally:
        os.close(ours)
        os.close(theirs)
        os.waitpid(children[0], 0)


def test_line_ends_that_git_turned_into_crlf_change_nothing(journal: Journal) -> None:
    journal.append([iteration(1), iteration(2)])
    journal.path.write_bytes(journal.path.read_bytes().replace(b"\n", b"\r\n"))

    again = Journal(journal.path.parent, "auth")
    again.append([iteration(2), iteration(3)])

    assert [one.record.iteration_number for one in again.read().in_order()] == [1, 2, 3]
    assert again.problems() == ()


def test_a_pipe_with_a_journals_name_is_refused_at_once(journal: Journal) -> None:
    journal.path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(journal.path)

    for use in (journal.read, lambda: journal.append([iteration(1)])):
        with pytest.raises(Unavailable, match="not a regular file"):
            use()
