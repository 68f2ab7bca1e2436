"""What answers cite is remembered from the answer to the pruning, checked after each change, and told of once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sluice.contracts.event import Done, Next
from sluice.contracts.index import AnswerDirected, AnswerReady, Citation, StaleCitation
from sluice.ledger.retention import Pruning
from sluice.ledger.trust.citations import CitedChunk
from tests.support.evaluation_samples import chunk
from tests.support.ledger_story import Story, answer

NOON = datetime(2031, 5, 6, 12, tzinfo=UTC)


def answered(story: Story, *documents: str, at_offset: int = 7, passage: tuple[str, ...] = ()) -> str:
    """A finished run whose answer cites the first chunk of each document."""
    asked = story.asks()
    directed = story.handles(asked, Done((Next(AnswerDirected()),))).emitted[0]
    labels = {name: name if len(name) == 1 else "x" for name in documents}  # the ids of chunks are plain
    chunks = tuple(chunk(f"{labels[name]}-1", name).model_copy(update={"passage": passage}) for name in documents)
    cited = tuple(
        Citation(number=number, chunk_id=one.chunk_id, source="a:1-2", match=1.0)
        for number, one in enumerate(chunks, start=1)
    )
    changes = {"chunks": chunks, "citations": cited, "journal_offset": at_offset}
    given = answer().answer.model_copy(update=changes)
    story.handles(directed, Done((Next(AnswerReady(answer=given, duration_ms=1.0, profile="code")),)))
    return asked.run_id


def unchecked(story: Story, served_offset: int) -> list[tuple[str, int, str]]:
    found = story.ledger.unchecked_citations("docs", served_offset)
    return sorted((one.run_id, one.citation, one.chunk_id) for one in found)


def stale(number: int = 1, document: str = "a") -> StaleCitation:
    return StaleCitation(
        citation=number, chunk_id=f"{document}-1", document_id=document, what="changed", changed_at=NOON
    )


def test_an_answer_of_what_is_served_now_needs_no_check(story: Story) -> None:
    answered(story, "a", at_offset=7)
    assert unchecked(story, 7) == []
    assert unchecked(story, 8) == [], "that was settled for good"


def test_an_answer_of_what_was_served_before_is_to_be_checked_until_it_was(story: Story) -> None:
    run_id = answered(story, "a", "b", at_offset=7)
    assert unchecked(story, 6) == [], "the index was taken back behind the answer"
    assert unchecked(story, 9) == [(run_id, 1, "a-1"), (run_id, 2, "b-1")]
    story.ledger.pass_citations(story.ledger.unchecked_citations("docs", 9))
    assert unchecked(story, 9) == []


def test_a_document_that_is_indexed_again_makes_what_cites_it_unchecked(story: Story) -> None:
    run_id = answered(story, "a", "b")
    assert unchecked(story, 7) == []
    assert not story.ledger.uncheck_citations("docs", ["c"], 8)
    assert not story.ledger.uncheck_citations("other", ["a"], 8)
    assert story.ledger.uncheck_citations("docs", ["c", "b"], 8)
    assert unchecked(story, 8) == [(run_id, 2, "b-1")]


def test_what_changes_again_while_it_is_checked_is_checked_again(story: Story) -> None:
    run_id = answered(story, "a")
    story.ledger.uncheck_citations("docs", ["a"], 8)
    seen = story.ledger.unchecked_citations("docs", 8)
    story.ledger.uncheck_citations("docs", ["a"], 9)
    story.ledger.pass_citations(seen)
    assert unchecked(story, 9) == [(run_id, 1, "a-1")]


def test_every_chunk_of_a_passage_is_watched(story: Story) -> None:
    run_id = answered(story, "a", passage=("a-0", "a-1", "a-2"))
    story.ledger.uncheck_citations("docs", ["a"], 8)
    found = story.ledger.unchecked_citations("docs", 8)
    assert {(one.chunk_id, one.checksum) for one in found} == {("a-0", None), ("a-1", None), ("a-2", None)}
    assert story.ledger.tell_stale(run_id, (stale(),)) is not None
    assert unchecked(story, 8) == [], "the citation is told of as a whole"


def test_a_run_is_told_of_each_citation_once(story: Story) -> None:
    run_id = answered(story, "a", "b")
    first = story.ledger.tell_stale(run_id, (stale(1, "a"),))
    assert first is not None
    both = story.ledger.tell_stale(run_id, (stale(1, "a"), stale(2, "b")))
    assert both is not None
    assert story.ledger.tell_stale(run_id, (stale(1, "a"), stale(2, "b"))) is None
    view = story.ledger.run(run_id)
    assert [one.citation for one in view.stale] == [1, 2]
    assert (view.status, view.open_events) == ("finished", 0)
    kinds = [event.kind for _, event in story.ledger.events_after(run_id)]
    assert kinds[-3:] == ["RunFinished", "AnswerStale", "AnswerStale"]


def test_a_pruned_run_takes_along_what_it_cites(story: Story) -> None:
    run_id = answered(story, "a")
    story.clock.passes(10)
    removed = Pruning(story.ledger.database, story.clock).prune(datetime.fromtimestamp(story.clock(), UTC), "operator")
    assert removed.runs == 1
    assert not story.ledger.uncheck_citations("docs", ["a"], 8)
    assert story.ledger.tell_stale(run_id, (stale(),)) is None


@pytest.mark.parametrize("name", ["a NUL \x00", "ключ"])
def test_a_document_of_any_name_is_found_again(story: Story, name: str) -> None:
    answered(story, name)
    assert story.ledger.uncheck_citations("docs", [name], 8)
    [one] = story.ledger.unchecked_citations("docs", 8)
    assert isinstance(one, CitedChunk)
