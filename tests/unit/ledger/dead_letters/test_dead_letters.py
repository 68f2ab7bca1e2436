"""What could not be handled is kept whole, and comes back when an operator says so."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import text

from sluice.contracts.budget import Ceiling, Ceilings, Spend
from sluice.contracts.errors import BudgetExhausted, Conflict, InvalidInput, MalformedEvent, NotFound, PolicyRefused
from sluice.contracts.event import DeadLetter, Done, Event, Gap, GapFound, Next, decode, encode, new_run_id
from sluice.contracts.gate import GateRequested
from sluice.contracts.index import DocumentIndexed
from sluice.contracts.ingest import CrawlDirected
from sluice.contracts.operations.dead_letters import DeadLetterFilter, DeadLetterPage, DeadLetterView
from sluice.ledger.dead_letters.letter import MOST_MESSAGE_CHARACTERS, MOST_STACK_CHARACTERS, fingerprint_of, subject_of
from sluice.ledger.ledger import NewRun
from sluice.otel.context import span, use_provider
from tests.support.ledger_story import NOON, Story, answer, page


def refused(problem: str = "https://example.org/7 is disallowed") -> DeadLetter:
    try:
        raise PolicyRefused("robots", problem, "another robots.txt")
    except PolicyRefused as error:
        return DeadLetter("policy", error)


def parked(story: Story, number: int = 7, verdict: DeadLetter | None = None) -> tuple[Event, str]:
    [event] = story.begins(page(number))
    story.handles(event, verdict or refused())
    return event, letter_of(story, event)


def letter_of(story: Story, event: Event) -> str:
    [letter] = story.ledger.dead_letters.list(DeadLetterPage(run_id=event.run_id, status="any"))
    return letter.id


def parked_in(story: Story, corpus: str) -> str:
    """A letter of a run of that corpus."""
    run_id = new_run_id()
    event = Event.of(page(), run_id=run_id, corpus=corpus)
    run = NewRun(run_id=run_id, kind="crawl", corpus=corpus, request_sha256="0" * 64)
    story.ledger.create_run(run, [(event, Next(event.body))])
    story.handles(event, refused())
    return letter_of(story, event)


def with_url(event: Event, url: str) -> bytes:
    """The event's payload, about another page."""
    return encode(event.model_copy(update={"body": CrawlDirected(url=url)}))


def shown(story: Story, letter_id: str) -> DeadLetterView:
    return story.ledger.dead_letters.show(letter_id)


# -- parking


def test_a_parked_event_keeps_everything_an_operator_needs(story: Story) -> None:
    event, letter_id = parked(story)
    letter = shown(story, letter_id)
    assert (letter.stage, letter.kind, letter.reason, letter.status) == ("crawl", "CrawlDirected", "policy", "parked")
    assert (letter.run_id, letter.corpus, letter.schema_version) == (event.run_id, "docs", 1)
    assert letter.exception_type == "PolicyRefused"
    assert letter.message.startswith("robots: https://example.org/7")
    assert "raise PolicyRefused" in letter.stack
    assert letter.payload.raw == encode(event)
    assert letter.sha256 == hashlib.sha256(letter.payload.raw).hexdigest()
    assert (letter.deliveries, letter.worker, letter.replay_count) == (1, "w1", 0)
    assert letter.code_version


def test_parking_names_the_gap_it_leaves(story: Story) -> None:
    event, _ = parked(story)
    [gap] = story.ledger.run(event.run_id).missing
    assert (gap.stage, gap.subject, gap.reason) == ("crawl", "https://example.org/7", "policy")
    assert "robots" in gap.detail


def test_no_secret_of_an_error_reaches_the_letter_or_the_gap(story: Story) -> None:
    event, letter_id = parked(story, verdict=refused("http://ann:hunter2@example.org/?api_key=sesame says no"))
    letter, [gap] = shown(story, letter_id), story.ledger.run(event.run_id).missing
    for told in (letter.message, letter.stack, gap.detail):
        assert "says no" in told
        assert "hunter2" not in told
        assert "sesame" not in told


def test_an_error_of_any_length_is_kept_at_a_bounded_one(story: Story) -> None:
    long = "https://ann:hunter2@example.org/" + "a." * 1_000_000 + "\n" + "one line of many\n" * 100_000
    letter = shown(story, parked(story, verdict=refused(long))[1])
    assert len(letter.message) < MOST_MESSAGE_CHARACTERS + 10
    assert letter.message.startswith("robots: https://***@example.org/")
    assert len(letter.stack) < MOST_STACK_CHARACTERS + 10
    assert letter.stack.startswith("…\n")
    assert letter.stack.endswith("(lifted by: another robots.txt)")


def test_a_stack_that_is_one_endless_line_still_says_where_it_was_raised(story: Story) -> None:
    letter = shown(story, parked(story, verdict=refused("x" * 1_000_000))[1])
    assert "raise PolicyRefused" in letter.stack
    assert len(letter.stack) < MOST_STACK_CHARACTERS


def test_a_raw_item_that_is_no_event_is_kept_with_its_bytes_and_cannot_be_replayed(story: Story) -> None:
    raw = b"\xff\x00not json"
    letters = story.ledger.dead_letters
    letter_id = letters.park_raw(raw, "crawl", "malformed", ValueError("not\x00JSON"), worker="w1")
    letter = shown(story, letter_id)
    assert (letter.payload.encoding, letter.payload.raw) == ("base64", raw)
    assert (letter.reason, letter.event_id, letter.message) == ("malformed", None, "not\ufffdJSON")
    assert (letter.worker, letter.deliveries, letter.corpus) == ("w1", 1, None)
    with pytest.raises(Conflict, match="no event"):
        letters.replay(letter_id, "ann")


def test_alike_failures_share_a_fingerprint() -> None:
    one = fingerprint_of("crawl", "Unavailable", "https://a.org/1 gave 503 after 12.5 s, run_0123456789abcdef")
    two = fingerprint_of("crawl", "Unavailable", "https://b.org/xy gave 500 after 3.5 s, run_fedcba9876543210")
    assert one == two
    assert one != fingerprint_of("search", "Unavailable", "https://a.org/1 gave 503")


def test_a_subject_is_a_page_a_question_or_documents() -> None:
    assert subject_of(page(1)) == "https://example.org/1"
    assert subject_of(GateRequested(query="why?")) == "why?"
    documents = DocumentIndexed(document_ids=("a", "b", "c"), chunk_count=3, journal_offset=1)
    assert subject_of(documents) == "a and 2 more"


# -- looking


def test_letters_are_listed_by_what_they_have_in_common(story: Story) -> None:
    letters = story.ledger.dead_letters
    event, letter_id = parked(story)
    story.clock.passes(60.0)
    raw_id = letters.park_raw(b"?", "embed", "malformed")
    fingerprint = shown(story, letter_id).fingerprint
    minute_later = datetime.fromtimestamp(NOON, UTC) + timedelta(minutes=1)
    assert [letter.id for letter in letters.list()] == [raw_id, letter_id]
    for wanted in (
        DeadLetterPage(stage="crawl"),
        DeadLetterPage(reason="policy"),
        DeadLetterPage(kind="CrawlDirected"),
        DeadLetterPage(fingerprint=fingerprint),
        DeadLetterPage(run_id=event.run_id),
        DeadLetterPage(corpora=("docs", "other")),
        DeadLetterPage(until=minute_later),
    ):
        assert [letter.id for letter in letters.list(wanted)] == [letter_id], wanted
    assert [letter.id for letter in letters.list(DeadLetterPage(since=minute_later))] == [raw_id]
    assert letters.list(DeadLetterPage(status="purged")) == []
    assert len(letters.list(DeadLetterPage(status="any"))) == 2
    with pytest.raises(NotFound):
        letters.show("dead_nothing")


def test_whoever_may_see_some_corpora_finds_their_letters_behind_any_number_of_others(story: Story) -> None:
    mine = parked_in(story, "mine")
    for number in range(5):
        parked(story, number)
        story.ledger.dead_letters.park_raw(b"?", "crawl", "malformed")
    for wanted in (DeadLetterPage(limit=1), DeadLetterPage(limit=1, corpora=("mine", "docs"))):
        found = story.ledger.dead_letters.list(wanted.within(frozenset({"mine"})))  # type: ignore[arg-type]
        assert [letter.id for letter in found] == [mine]
    assert story.ledger.dead_letters.list(DeadLetterPage(corpora=())) == []


def test_a_list_goes_on_behind_a_position_though_letters_come_and_go(story: Story) -> None:
    letters = story.ledger.dead_letters
    ids = []
    for number in range(7):
        ids.append(parked(story, number)[1])
        story.clock.passes(number % 2)  # some are of the same moment
    seen: list[str] = []
    before = None
    while found := letters.list(DeadLetterPage(limit=2, cursor=before)):
        seen += [letter.id for letter in found]
        before = found[-1].position
        letters.purge(found[-1].id, "ann")
        parked(story, 100)
    assert sorted(seen) == sorted(ids)
    with pytest.raises(InvalidInput, match="before"):
        letters.list(DeadLetterPage(cursor="yesterday"))


def test_groups_are_one_line_per_fingerprint_the_latest_first(story: Story) -> None:
    letters = story.ledger.dead_letters
    for number in range(3):
        parked(story, number, refused(f"https://example.org/{number} is disallowed"))
        story.clock.passes(10.0)
    newest = letters.list()[0]
    raw_id = letters.park_raw(b"?", "embed", "malformed")
    raw, crawl = letters.groups()
    assert (raw.count, raw.stage, raw.kinds, raw.reasons, raw.example_id) == (1, "embed", (), ("malformed",), raw_id)
    assert (crawl.count, crawl.stage, crawl.exception_type) == (3, "crawl", "PolicyRefused")
    assert (crawl.kinds, crawl.reasons) == (("CrawlDirected",), ("policy",))
    assert (crawl.example_id, crawl.message, crawl.last_seen) == (newest.id, newest.message, newest.last_seen)
    assert crawl.last_seen - crawl.first_seen == timedelta(seconds=20)
    assert letters.groups(DeadLetterPage(limit=1)) == [raw]
    assert letters.groups(DeadLetterPage(cursor=raw.position)) == [crawl]
    assert letters.groups(DeadLetterPage(reason="poison")) == []


# -- replaying


def test_a_replay_brings_the_same_event_back_under_a_new_epoch(story: Story) -> None:
    event, letter_id = parked(story)
    assert story.ledger.dead_letters.replay(letter_id, "ann", note="robots changed") == event
    letter = shown(story, letter_id)
    assert (letter.status, letter.replay_count, letter.operator, letter.note) == (
        "replayed",
        1,
        "ann",
        "robots changed",
    )
    [action] = letter.actions
    assert (action.operator, action.action, action.note) == ("ann", "replay", "robots changed")
    assert action.at == datetime.fromtimestamp(NOON, UTC)
    claim = story.claims(event)
    assert (claim.epoch, claim.attempts, claim.deaths) == (2, 0, 0)
    assert story.ledger.settle(claim, Done()).emitted == ()
    view = story.ledger.run(event.run_id)
    assert (view.status, view.dead_letters, view.settled_events) == ("finished", 0, 1)
    assert view.missing == (), "what the replay made good is no gap any more"


def test_a_failed_question_whose_answer_is_replayed_has_its_answer_and_ends_once(story: Story) -> None:
    [directed] = story.handles(story.asks(), Done()).emitted
    story.handles(directed, DeadLetter("discarded"))
    [letter] = story.ledger.dead_letters.list()
    story.ledger.dead_letters.replay(letter.id, "ann")
    emitted = story.ledger.settle(story.claims(directed), Done(emits=(Next(answer()),))).emitted
    assert [event.kind for event in emitted] == ["AnswerReady"]
    view = story.ledger.run(directed.run_id)
    assert (view.status, view.missing, view.answer) == ("finished", (), answer().answer)


def test_a_replayed_event_goes_behind_what_its_lane_has_in_line(story: Story) -> None:
    first, second, third = story.begins(page(1), page(2), page(3))
    claim = story.ledger.claim_next("crawl", "w1", 10.0)
    story.ledger.settle(claim, refused())  # type: ignore[arg-type]
    story.ledger.dead_letters.replay(letter_of(story, first), "ann")
    claims = [story.ledger.claim_next("crawl", "w1", 10.0) for _ in range(3)]
    assert [claim.event for claim in claims] == [second, third, first]  # type: ignore[union-attr]


def test_an_event_parked_again_is_the_same_letter_and_the_fourth_replay_must_be_forced(story: Story) -> None:
    letters = story.ledger.dead_letters
    event, letter_id = parked(story)
    for _ in range(3):
        letters.replay(letter_id, "ann")
        story.clock.passes(60.0)
        story.handles(event, refused())
    [letter] = letters.list()
    assert (letter.id, letter.replay_count, letter.deliveries) == (letter_id, 3, 4)
    assert letter.last_seen > letter.first_seen
    with pytest.raises(Conflict, match="force"):
        letters.replay(letter_id, "ann")
    assert letters.replay(letter_id, "ann", force=True) == event
    assert shown(story, letter_id).actions[-1].action == "replay, forced"


def test_a_cancelled_run_gets_its_event_back_only_by_force(story: Story) -> None:
    parked_one, _open = story.begins(page(1), page(2))
    story.handles(parked_one, refused())
    story.ledger.cancel(parked_one.run_id)
    letter_id = letter_of(story, parked_one)
    with pytest.raises(Conflict, match="cancelled"):
        story.ledger.dead_letters.replay(letter_id, "ann")
    assert story.statuses(parked_one) == "dead"
    assert story.ledger.dead_letters.replay(letter_id, "ann", force=True) == parked_one


def test_what_no_version_here_can_read_is_replayed_once_it_was_edited(story: Story) -> None:
    [event] = story.begins(page(1))
    with story.ledger.database.writing() as connection:
        connection.execute(text("UPDATE events SET payload = :raw WHERE id = :id"), {"raw": "{}", "id": event.id})
    assert story.finds_nothing() == "malformed"
    letter_id = letter_of(story, event)
    with pytest.raises(Conflict, match="edit"):
        story.ledger.dead_letters.replay(letter_id, "ann")
    story.ledger.dead_letters.edit(letter_id, encode(event), "ann")
    assert story.ledger.dead_letters.replay(letter_id, "ann").body == event.body


def test_two_replays_at_once_bring_the_event_back_once(story: Story) -> None:
    _, letter_id = parked(story)
    outcomes: list[object] = []

    def replay() -> None:
        try:
            outcomes.append(story.ledger.dead_letters.replay(letter_id, "ann"))
        except Conflict as error:
            outcomes.append(error)

    threads = [threading.Thread(target=replay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, Event) for outcome in outcomes) == 1
    assert len(outcomes) == 4


def test_a_replay_reserves_anew_and_is_refused_when_that_does_not_fit(story: Story) -> None:
    two_pages = Ceilings(run=Ceiling(pages=2))
    costly, other = story.begins(Next(page(1), reserve=Spend(pages=2)), Next(page(2)), ceilings=two_pages)
    story.handles(costly, refused())
    [letter] = story.ledger.dead_letters.list()
    [taking] = story.handles(other, Done(emits=(Next(page(3), reserve=Spend(pages=1)),))).emitted
    with pytest.raises(BudgetExhausted):
        story.ledger.dead_letters.replay(letter.id, "ann")
    assert shown(story, letter.id).status == "parked"
    assert shown(story, letter.id).actions == ()
    story.handles(taking, Done())
    story.ledger.dead_letters.replay(letter.id, "ann")
    assert story.ledger.budget_left(costly.run_id).run.pages == 0


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What is recorded while the test runs."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use_provider(provider)
    yield exporter
    use_provider(None)


def test_a_replays_span_links_to_the_one_that_failed_and_the_handlers_hangs_below(
    story: Story, spans: InMemorySpanExporter
) -> None:
    run_id, failed = new_run_id(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    event = Event.of(page(), run_id=run_id, corpus="docs", traceparent=failed)
    run = NewRun(run_id=run_id, kind="crawl", corpus="docs", request_sha256="0" * 64)
    story.ledger.create_run(run, [(event, Next(event.body))])
    story.handles(event, refused())
    with span("operator's command"):
        story.ledger.dead_letters.replay(letter_of(story, event), "ann")
    replay, command = spans.get_finished_spans()
    assert replay.parent == command.context
    [link] = replay.links
    assert f"{link.context.span_id:016x}" == failed.split("-")[2]
    assert (replay.attributes or {})["sluice.run_id"] == run_id
    claim = story.claims(event)
    assert claim.replay_traceparent is not None
    assert claim.replay_traceparent.split("-")[2] == f"{replay.context.span_id:016x}"


# -- editing


def test_an_edited_letter_comes_back_as_a_new_event_and_keeps_what_it_was(story: Story) -> None:
    event, letter_id = parked(story)
    payload = with_url(event, "https://example.org/mended")
    edited = story.ledger.dead_letters.edit(letter_id, payload, "ann", "the page has moved")
    assert (edited.payload.raw, edited.sha256) == (payload, hashlib.sha256(payload).hexdigest())
    [past] = edited.payload_history
    assert (past.operator, past.payload.raw, past.sha256) == (
        "ann",
        encode(event),
        hashlib.sha256(encode(event)).hexdigest(),
    )

    mended = story.ledger.dead_letters.replay(letter_id, "bob")
    letter = shown(story, letter_id)
    assert mended.id != event.id
    assert (mended.cause_id, mended.run_id, mended.body) == (event.id, event.run_id, decode(payload).body)
    assert (letter.status, letter.replayed_as, letter.event_id) == ("replayed", mended.id, event.id)
    assert [(one.operator, one.action) for one in letter.actions] == [("ann", "edit"), ("bob", "replay")]
    assert (story.statuses(event), story.statuses(mended)) == ("dead", "ready")
    story.handles(mended, refused())
    own = [one for one in story.ledger.dead_letters.list() if one.event_id == mended.id]
    assert [(one.idempotency_key, one.replay_count) for one in own] == [(f"edited:{letter_id}", 0)]
    assert shown(story, letter_id).status == "replayed"


def test_an_edited_letter_reserves_what_the_event_did(story: Story) -> None:
    costly, _open = story.begins(
        Next(page(1), reserve=Spend(pages=2)), Next(page(2)), ceilings=Ceilings(run=Ceiling(pages=2))
    )
    story.handles(costly, refused())
    letter_id = letter_of(story, costly)
    story.ledger.dead_letters.edit(letter_id, with_url(costly, "https://example.org/x"), "ann")
    story.ledger.dead_letters.replay(letter_id, "ann")
    assert story.ledger.budget_left(costly.run_id).run.pages == 0


def test_an_edit_must_be_an_event_of_the_same_run_that_a_queue_handles(story: Story) -> None:
    letters = story.ledger.dead_letters
    event, letter_id = parked(story)
    other, _ = parked(story)
    streamed = GapFound(gap=Gap(stage="crawl", subject="a page", reason="policy"))
    for payload, error, match in (
        (b"{not json", MalformedEvent, "JSON"),
        (b"[" * 9_999, MalformedEvent, "JSON"),
        (encode(event).replace(b"CrawlDirected", b"CrawlDreamt"), MalformedEvent, "kind"),
        (encode(other), InvalidInput, "run_id"),
        (encode(event.model_copy(update={"corpus": "theirs"})), InvalidInput, "corpus"),
        (encode(Event.of(streamed, run_id=event.run_id, corpus="docs")), InvalidInput, "kind"),
        (encode(event.model_copy(update={"run_id": "run_none"})), NotFound, "run_none"),
        (encode(event), Conflict, "already"),
    ):
        with pytest.raises(error, match=match):
            letters.edit(letter_id, payload, "ann")
    assert shown(story, letter_id).payload_history == ()
    letters.replay(letter_id, "ann")
    with pytest.raises(Conflict, match="replayed"):
        letters.edit(letter_id, with_url(event, "https://example.org/late"), "ann")


def test_two_edits_at_once_lose_neither_payload(story: Story) -> None:
    event, letter_id = parked(story)
    payloads = [with_url(event, f"https://example.org/{number}") for number in range(4)]

    def edit(payload: bytes) -> None:
        story.ledger.dead_letters.edit(letter_id, payload, "ann")

    threads = [threading.Thread(target=edit, args=(payload,)) for payload in payloads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    letter = shown(story, letter_id)
    kept = [past.payload.raw for past in letter.payload_history]
    assert kept[0] == encode(event)
    assert sorted([*kept[1:], letter.payload.raw]) == sorted(payloads)


def test_a_raw_item_that_was_edited_into_an_event_of_a_run_is_replayed_as_one(story: Story) -> None:
    [open_event] = story.begins(page(1))
    letters = story.ledger.dead_letters
    letter_id = letters.park_raw(b'{"almost": "an event"', "crawl", "malformed")
    whole = Event.of(page(9), run_id=open_event.run_id, corpus="docs")
    assert letters.edit(letter_id, encode(whole), "ann").run_id == open_event.run_id
    event = letters.replay(letter_id, "ann")
    assert (event.body, story.statuses(event)) == (whole.body, "ready")
    assert shown(story, letter_id).replayed_as == event.id
    assert shown(story, letter_id).corpus is None, "its old bytes are still nobody's but the whole operator's"
    with pytest.raises(Conflict, match="not parked"):
        letters.replay(letter_id, "ann")


# -- purging


def test_a_purged_letter_keeps_its_facts_and_loses_its_contents(story: Story) -> None:
    event, letter_id = parked(story)
    letters = story.ledger.dead_letters
    letters.edit(letter_id, with_url(event, "https://example.org/x"), "ann")
    before = shown(story, letter_id)
    letters.purge(letter_id, "bob", "nobody wants it")
    letter = shown(story, letter_id)
    assert (letter.status, letter.payload.raw, letter.stack, letter.payload_history) == ("purged", b"", "", ())
    assert (letter.message, letter.fingerprint, letter.sha256) == (before.message, before.fingerprint, before.sha256)
    assert [(one.operator, one.action, one.note) for one in letter.actions][1:] == [("bob", "purge", "nobody wants it")]
    for again in (lambda: letters.purge(letter_id, "bob"), lambda: letters.replay(letter_id, "bob")):
        with pytest.raises(Conflict):
            again()


def test_many_are_purged_only_by_whoever_knows_how_many_they_are(story: Story) -> None:
    letters = story.ledger.dead_letters
    ids = [letters.park_raw(json.dumps(number).encode(), "crawl", "malformed") for number in range(5)]
    parked(story)
    malformed = DeadLetterFilter(reason="malformed")
    letters.purge(ids[0], "ann")
    assert letters.would_purge(malformed).matching == 4
    assert letters.would_purge(malformed.model_copy(update={"status": "any"})).matching == 4
    with pytest.raises(Conflict, match="4 dead letters match"):
        letters.purge_all(malformed, "ann", expected=5)
    assert letters.purge_all(malformed, "ann", expected=4).purged == 4
    assert [letter.reason for letter in letters.list()] == ["policy"]
    assert [shown(story, one).actions[-1].action for one in ids] == ["purge"] * 5


def test_a_purge_of_more_than_one_transaction_holds_empties_all(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.ledger.dead_letters.store.PURGED_AT_ONCE", 2)
    letters = story.ledger.dead_letters
    for number in range(5):
        letters.park_raw(json.dumps(number).encode(), "crawl", "malformed")
    assert letters.purge_all(DeadLetterFilter(), "ann", expected=5).purged == 5
    assert letters.list() == []


def test_an_event_that_was_purged_after_its_replay_is_a_letter_again_when_it_fails(story: Story) -> None:
    event, letter_id = parked(story)
    story.ledger.dead_letters.replay(letter_id, "ann")
    story.ledger.dead_letters.purge(letter_id, "ann")
    story.handles(event, refused())
    letter = shown(story, letter_id)
    assert (letter.status, letter.payload.raw, letter.replay_count) == ("parked", encode(event), 1)
