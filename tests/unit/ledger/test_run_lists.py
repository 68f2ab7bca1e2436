"""Runs are listed newest first by whatever an operator narrows them down to, and found by words and ids."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.contracts.event import Done, Event, Next, Retry, made_at, new_run_id
from sluice.contracts.gate import GateRequested
from sluice.ledger.ledger import Ledger, NewRun
from sluice.ledger.retention import Pruning
from sluice.ledger.schema.tables import moment
from tests.support.ledger_story import Story, page

QUESTIONS = ("When does a lease end?", "WHEN may 100% of a lease_holder's claims end?", "Wann endet die Größe ÄPFEL?")


def ids(story: Story, **filters: Any) -> list[str]:
    """The runs that are listed, and the same in pages of one: both must agree."""
    found = [run.run_id for run in story.ledger.runs(**filters)]
    paged: list[str] = []
    while more := story.ledger.runs(1, paged[-1] if paged else None, **filters):
        paged += [run.run_id for run in more]
    assert paged == found
    assert found == sorted(found, reverse=True)
    return found


def asked(story: Story) -> list[str]:
    return [story.asks(question, owner=f"key_{number}").run_id for number, question in enumerate(QUESTIONS)]


def test_runs_are_found_by_each_of_their_words_in_any_order_and_case(story: Story) -> None:
    first, second, third = asked(story)
    assert ids(story, text="lease") == sorted([first, second], reverse=True)
    assert ids(story, text="END lease") == sorted([first, second], reverse=True)
    assert ids(story, text="lease claims") == [second]
    assert ids(story, text="äpfel größe") == [third]
    assert ids(story, text="eas does") == [first], "parts of words too"
    assert ids(story, text="nothing of it") == []


@pytest.mark.parametrize("text", ["100%", "lease_holder's", 'a "lease', "lease*", "NOT OR AND", "query:lease", "(lea"])
def test_marks_of_a_query_language_are_letters_like_others(story: Story, text: str) -> None:
    made = asked(story)
    wanted = [run for run, words in zip(made, QUESTIONS, strict=True) if all(w in words for w in text.split())]
    assert ids(story, text=text) == wanted


def test_a_short_word_counts_where_a_longer_one_is_beside_it(story: Story) -> None:
    first, second, _ = asked(story)
    assert ids(story, text="lease a") == sorted([first, second], reverse=True)
    assert ids(story, text="lease of") == [second]
    with pytest.raises(InvalidInput, match="no word of 3 letters"):
        story.ledger.runs(text="a of")


def test_words_and_filters_hold_together(story: Story) -> None:
    first, second, _ = asked(story)
    assert ids(story, text="lease", owner="key_1") == [second]
    assert ids(story, text="lease", corpora={"other"}) == []
    assert ids(story, text="lease", corpora={"docs"}, unfinished=True) == sorted([first, second], reverse=True)
    story.ledger.cancel(first)
    assert ids(story, text="lease", status="cancelled") == [first]
    assert ids(story, text="lease", unfinished=True) == [second]


def test_a_run_is_found_by_the_beginning_of_its_id_and_by_an_event(story: Story) -> None:
    event = story.asks()
    assert ids(story, text=event.run_id) == ids(story, text=event.run_id[:16]) == [event.run_id]
    assert ids(story, text=event.id) == [event.run_id]
    assert ids(story, text="run_0000") == ids(story, text="evt_" + "0" * 28) == []
    assert ids(story, text=event.id, corpora={"other"}) == []


def test_runs_that_retry_are_a_list_of_their_own(story: Story) -> None:
    failed, fine = story.begins(page())[0], story.begins(page())[0]
    story.handles(failed, Retry(5.0, "later"))
    assert ids(story, retrying=True) == [failed.run_id]
    assert story.ledger.runs(retrying=True)[0].retrying == 1
    story.handles(fine, Done())
    story.clock.passes(6)
    story.ledger.wake_due_retries()
    story.handles(failed, Done())
    assert ids(story, retrying=True) == []


def test_open_runs_and_runs_of_several_corpora_are_one_list(story: Story) -> None:
    made = {name: [_run(story.ledger, name) for _ in range(3)] for name in ("a", "b", "c")}
    story.ledger.cancel(made["a"][0])
    seen = sorted([*made["a"][1:], *made["b"]], reverse=True)
    assert ids(story, unfinished=True, corpora={"a", "b"}) == seen
    assert ids(story, corpora={"a", "b"}, corpus="c") == []
    assert ids(story, corpora=[f"x{n}" for n in range(80)] + ["b"]) == sorted(made["b"], reverse=True)
    assert ids(story, corpora=set()) == []
    oldest = story.ledger.glances.look().oldest_runs[:2]
    assert [run.run_id for run in oldest] == sorted(
        run for some in made.values() for run in some if run != made["a"][0]
    )[:2]


def test_a_stretch_of_time_is_that_of_creation(new_ledger_url: str) -> None:
    with Ledger(new_ledger_url) as ledger:
        run_id = _run(ledger, "docs")
        created = made_at(run_id)
        minute = timedelta(minutes=1)
        assert [run.run_id for run in ledger.runs(since=created - minute, until=created + minute)] == [run_id]
        assert ledger.runs(since=created + minute) == ledger.runs(until=created - minute) == []


def test_a_pruned_run_is_not_found_by_its_words(story: Story) -> None:
    first, _, _ = asked(story)
    story.ledger.cancel(first)
    story.clock.passes(60)
    Pruning(story.ledger.database, story.clock).prune(moment(story.clock.now - 30), "ana")
    assert first not in ids(story, text="lease")
    assert len(ids(story, text="lease")) == 1


def test_runs_of_one_moment_are_all_found(story: Story) -> None:
    made = [f"run_{'0199c0ffee00aaaa'}{number:012x}" for number in range(5)]
    for run_id in made:
        _run(story.ledger, "docs", run_id)
    assert sorted(run.run_id for run in story.ledger.runs(text="what lease")) == made


def _run(ledger: Ledger, corpus: str, run_id: str | None = None) -> str:
    run_id = run_id or new_run_id()
    event = Event.of(GateRequested(query="what is a lease?"), run_id=run_id, corpus=corpus)
    run = NewRun(run_id, "gate", corpus, "0" * 64, query="what is a lease?")
    ledger.create_run(run, [(event, Next(event.body))])
    return run_id
