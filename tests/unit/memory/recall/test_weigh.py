"""Weight comes from outcomes: being shown, repeated or obeyed without success gives a learning none."""

from __future__ import annotations

from typing import Any

from sluice.contracts.memory.learning import FeatureLearning
from sluice.contracts.memory.model import ErrorEntry, IterationOutcome
from sluice.memory.journal.entry import BlockPrinted, JournalEntry, LearningWeighed
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.recall.weigh import weigh
from tests.support.memory.iterations import BEGINNING, entry, error, iteration, learning, memory_of

TOKENS = learning("The session token is signed with the server's secret")
SUCCESS = IterationOutcome.SUCCESS


def printed(number: int, *learnings: FeatureLearning, session: str | None = None) -> JournalEntry:
    body = BlockPrinted(
        session_id=session,
        iteration_number=number,
        learning_ids=tuple(one.id for one in learnings),
        lines=tuple(f"“{one.text}” (seen in iteration 1; verify before relying)" for one in learnings),
    )
    return entry(body, key=f"{number}{session}")


def weighed(state: FeatureMemory) -> list[LearningWeighed]:
    return [one.body for one in weigh(state, BEGINNING) if isinstance(one.body, LearningWeighed)]


def fared(*said: Any) -> tuple[bool, bool, bool]:
    (body,) = weighed(memory_of(TOKENS, *said))
    return body.used, body.helped, body.failed_again


def test_used_with_success_helps() -> None:
    """By what the agent says that it did, and by a file that the learning names."""
    assert fared(
        printed(2, TOKENS), iteration(2, SUCCESS, decisions=["Wrote a helper that signed each token by that secret"])
    ) == (True, True, False)
    named = learning("Tokens are read in src/auth/session.py")
    state = memory_of(named, printed(2, named), iteration(2, SUCCESS, changed=["src/auth/session.py"]))
    assert weighed(state)[0].helped


def test_used_without_success_does_not_help() -> None:
    assert fared(
        printed(2, TOKENS), iteration(2, decisions=["Wrote a helper that signed each token by that secret"])
    ) == (True, False, False)


def test_success_without_use_does_not_help() -> None:
    assert fared(printed(2, TOKENS), iteration(2, SUCCESS, decisions=["Moved the button"])) == (False, False, False)


def test_repeating_the_block_is_no_use_of_it() -> None:
    """The recall loop: an agent that says what it was shown has used nothing."""
    said = f"As noted in memory: {TOKENS.text}. The server's secret signed the session token."
    assert fared(printed(2, TOKENS), iteration(2, SUCCESS, summary=said)) == (False, False, False)


def test_the_same_error_again_counts_against_what_is_about_it() -> None:
    again = [error("session token is not signed: 17", "src/a.py", 3)]
    state = memory_of(TOKENS, iteration(1, errors=again), printed(2, TOKENS), iteration(2, errors=again))
    assert [one.failed_again for one in weighed(state)] == [True]


def test_a_new_error_or_one_of_something_else_counts_against_nothing() -> None:
    first, other = error("session token is not signed"), error("button has no label")
    assert fared(printed(2, TOKENS), iteration(2, errors=[first])) == (False, False, False)
    assert fared(iteration(1, errors=[other]), printed(2, TOKENS), iteration(2, errors=[other])) == (
        False,
        False,
        False,
    )


def test_a_fix_is_not_blamed_for_another_error_of_its_file() -> None:
    """Its own error is gone, and what comes back only stands in the same file; its own error counts, and its test."""
    fixed = error("test_total: TypeError: unsupported operand type(s) for +: 'int' and 'str'", "shop/store.py", 9)
    locked = error("test_two_writers: sqlite3.OperationalError: database is locked", "shop/store.py", 15)
    floats = learning(
        f'pytest: "{fixed.message}" in shop/store.py was solved: changed shop/store.py: The prices are texts.'
    )
    of_test = learning("test_two_writers passes with a longer time limit")

    def blamed(one: FeatureLearning, met: ErrorEntry) -> bool:
        (body,) = weighed(memory_of(one, iteration(1, errors=[met]), printed(2, one), iteration(2, errors=[met])))
        return body.failed_again

    assert not blamed(floats, locked)
    assert blamed(floats, fixed)
    assert blamed(of_test, locked)
    assert not blamed(of_test, fixed)


def test_a_session_helps_once() -> None:
    """However often a learning is shown in one session; another session counts again."""
    said: list[Any] = []
    for number, session in ((2, "a"), (3, "a"), (4, "a"), (5, "b")):
        said += [
            printed(number, TOKENS),
            iteration(
                number, SUCCESS, summary="Wrote a helper that signed the token by that secret", session_id=session
            ),
        ]
    assert [one.helped for one in weighed(memory_of(TOKENS, *said))] == [True, False, False, True]
    state = memory_of(TOKENS, *said[:2])
    for more in ([], said[2:4], said[4:6], said[6:]):
        memory_of(*more, state=state)
        memory_of(*weigh(state, BEGINNING), state=state)
    assert state.learnings[TOKENS.id].helped == 2
    assert state.learnings[TOKENS.id].used == 4


def test_weighing_twice_adds_nothing() -> None:
    state = memory_of(
        TOKENS, printed(2, TOKENS), iteration(2, SUCCESS, summary="Wrote a helper that signed the token by that secret")
    )
    entries = weigh(state, BEGINNING)
    memory_of(*entries, state=state)
    assert state.learnings[TOKENS.id].helped == 1
    assert weigh(state, BEGINNING) == []


def test_a_block_of_another_session_is_not_the_iteration_s() -> None:
    """Two loops on one feature, which both count from one."""
    said = [printed(2, TOKENS, session="a"), iteration(1, session_id="a"), iteration(2, session_id="b")]
    assert weighed(memory_of(TOKENS, *said)) == []


def test_a_loop_may_name_its_sessions_otherwise_than_the_agent_does() -> None:
    """Claude Code gives each run an id of its own; the number of the iteration decides then."""
    assert len(weighed(memory_of(TOKENS, printed(2, TOKENS, session="night-1"), iteration(2, session_id="0f-e1")))) == 1
    assert len(weighed(memory_of(TOKENS, printed(2, TOKENS), iteration(2, session_id="0f-e1")))) == 1
    assert len(weighed(memory_of(TOKENS, printed(2, TOKENS, session="night-1"), iteration(2)))) == 1
