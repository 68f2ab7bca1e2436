"""Deliveries are written with their events, sent in order, tried again by a plan, and end an endpoint that stays away."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, get_args

import pytest
from sqlalchemy import text

from sluice.contracts.errors import Conflict, NotFound, PolicyRefused
from sluice.contracts.event import Body, DeadLetter, Done, Event, Gap
from sluice.contracts.index import Citation, StaleCitation
from sluice.contracts.learning.control import Defence
from sluice.contracts.learning.events import DefenceTripped
from sluice.contracts.operations.webhooks import DeliveryReplay, HookType
from sluice.ledger.audit import ControlChange, record_control
from sluice.ledger.events import finish
from sluice.ledger.retention import Pruning
from sluice.ledger.schema.tables import moment
from sluice.ledger.webhooks.store import ATTEMPT_SECONDS, JITTER, LEASE_SECONDS, Attempt, ClaimedDelivery
from tests.support.evaluation_samples import chunk
from tests.support.ledger_story import Story, answer, page

ARRIVED, REFUSED = Attempt(5, 204), Attempt(5, 500, "no")
EVERY_TYPE: tuple[HookType, ...] = get_args(HookType)


def endpoint(story: Story, name: str = "wh_1", *corpora: str, types: tuple[str, ...] = EVERY_TYPE) -> None:
    story.ledger.webhooks.insert(name, "https://example.org/hook", types, corpora, "local", secrets="[]")


def claimed(story: Story, most_of_endpoint: int = 100) -> list[ClaimedDelivery]:
    return list(story.ledger.webhooks.claim({}, most_of_endpoint, 100))


def told(story: Story, name: str = "wh_1") -> list[str]:
    return [one.type for one in reversed(story.ledger.webhooks.deliveries(name, 100))]


def bodies(story: Story, name: str = "wh_1") -> list[dict[str, Any]]:
    """What arrives at an endpoint until nothing is due."""
    found = []
    while some := claimed(story):
        assert len({(one.endpoint_id, one.lane) for one in some}) == len(some)  # one at a time of each lane
        for one in some:
            story.ledger.webhooks.record(one, ARRIVED)
            found += [json.loads(one.body)] if one.endpoint_id == name else []
    return found


def controls(story: Story, *bodies: Body) -> None:
    with story.ledger.database.writing() as connection:
        record_control(connection, ControlChange(bodies, "defence_trip", "defence:satisfaction"), story.clock())


def ends(story: Story, runs: int = 1) -> list[Event]:
    """Runs that are cancelled at once."""
    begun = [story.begins(page(number))[0] for number in range(runs)]
    for event in begun:
        story.ledger.cancel(event.run_id)
    return begun


def test_an_event_is_told_to_each_endpoint_that_wants_it_under_one_id(story: Story) -> None:
    endpoint(story)
    endpoint(story, "wh_2", "docs")
    endpoint(story, "wh_3", "other")
    endpoint(story, "wh_4", types=("answer.ready",))
    (event,) = ends(story)
    assert [told(story, f"wh_{number}") for number in (1, 2, 3, 4)] == [["run.finished"], ["run.finished"], [], []]
    (one,), (two,) = (story.ledger.webhooks.deliveries(name, 10) for name in ("wh_1", "wh_2"))
    assert one.id == two.id
    body = json.loads(claimed(story)[0].body)
    assert body["type"] == "run.finished"
    assert body["data"]["links"] == {"run": f"/v1/runs/{event.run_id}"}
    assert (body["data"]["run_id"], body["data"]["status"]) == (event.run_id, "cancelled")


def test_what_is_undone_is_told_to_nobody(story: Story) -> None:
    endpoint(story)
    (event,) = story.begins(page(1))

    def breaks_off() -> None:
        with story.ledger.database.writing() as connection:
            finish.cancel(connection, event.run_id, story.clock())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        breaks_off()
    assert told(story) == []


def test_a_dead_letter_and_a_quarantined_document_come_before_the_end_of_their_run(story: Story) -> None:
    endpoint(story)
    first, second = story.begins(page(1), page(2))
    story.handles(second, DeadLetter("policy", PolicyRefused("robots", "disallowed", "nothing")))
    gap = Gap(stage="embed", subject="https://a.example/1", reason="quarantined", detail="the guard holds it back")
    story.handles(first, Done(gaps=(gap,)))
    assert told(story) == ["dead_letter.parked", "quarantine.held", "run.finished"]
    arrived = bodies(story)
    assert [body["type"] for body in arrived] == ["dead_letter.parked", "quarantine.held", "run.finished"]
    assert story.ledger.dead_letters.show(arrived[0]["data"]["dead_letter_id"]).run_id == second.run_id
    assert arrived[1]["data"]["links"]["quarantine"] == f"/v1/quarantine?run_id={first.run_id}"
    assert "a.example" not in json.dumps(arrived)


def test_an_answer_that_is_stale_is_told_by_numbers_after_its_run(story: Story) -> None:
    endpoint(story)
    event, given = story.asks(), answer()
    chunks = tuple(chunk(f"c{number}", "https://a.example/") for number in range(1, 301))
    cited = tuple(
        Citation(number=number, chunk_id=one.chunk_id, source="https://a.example/", match=0.9)
        for number, one in enumerate(chunks, 1)
    )
    changed = given.answer.model_copy(update={"chunks": chunks, "citations": cited})
    story.ledger.add_event(Event.of(given.model_copy(update={"answer": changed}), run_id=event.run_id, corpus="docs"))
    story.ledger.cancel(event.run_id)
    at = moment(story.clock())
    every = [
        StaleCitation(citation=one.number, chunk_id=one.chunk_id, document_id="a.example", what="gone", changed_at=at)
        for one in cited
    ]
    assert story.ledger.tell_stale(event.run_id, every) is not None
    assert story.ledger.tell_stale(event.run_id, every) is None
    ready_one, finished, stale_one = bodies(story)
    assert (ready_one["type"], ready_one["data"]["citations"]) == ("answer.ready", 300)
    assert (finished["type"], stale_one["type"]) == ("run.finished", "answer.stale")
    assert stale_one["data"]["citations"][:1] == [{"citation": 1, "what": "gone"}]
    assert stale_one["data"]["run_id"] == event.run_id
    assert len(json.dumps(stale_one)) <= 20_000
    assert "a.example" not in json.dumps(stale_one)


def test_what_concerns_the_instance_comes_to_webhooks_of_all_corpora_and_defences_to_whom_they_were_granted(
    story: Story,
) -> None:
    endpoint(story)
    endpoint(story, "wh_2", "docs")
    defence = Defence(
        name="satisfaction", step="retrieve_only", profile="default", since=moment(0), why="w", lifted_by="l"
    )
    controls(story, DefenceTripped(defence=defence))
    letter_id = story.ledger.dead_letters.park_raw(b"\x00 no event", "crawl", "malformed")
    assert told(story) == ["defence.tripped", "dead_letter.parked"]
    assert told(story, "wh_2") == ["defence.tripped"]
    tripped, parked = bodies(story)
    assert (tripped["data"]["name"], tripped["data"]["profile"]) == ("satisfaction", "default")
    assert tripped["data"]["links"] == {"run": f"/v1/runs/{tripped['data']['run_id']}"}
    assert (parked["data"]["dead_letter_id"], parked["data"]["run_id"]) == (letter_id, None)
    assert (parked["data"]["stage"], parked["data"]["reason"]) == ("crawl", "malformed")
    assert "no event" not in json.dumps(parked)


def test_nothing_of_a_question_an_answer_or_a_document_is_in_a_delivery(story: Story) -> None:
    """So that forgetting has nothing to look for there."""
    endpoint(story)
    event, secret = story.asks("what did Ada say?"), "Ada"
    gap = Gap(stage="embed", subject="https://Ada.example/", reason="quarantined", detail="Ada")
    story.ledger.add_event(Event.of(answer("what did Ada say?"), run_id=event.run_id, corpus="docs"))
    story.handles(event, Done(gaps=(gap,)))
    failed = story.begins(page(1))[0]
    story.handles(failed, DeadLetter("policy", PolicyRefused("robots", "Ada refuses", "Ada")))
    assert len(told(story)) == 4
    with story.ledger.database.installing() as connection:
        rows = connection.execute(text("SELECT * FROM webhook_deliveries")).all()
    assert not [row for row in rows if secret in str(row) or "A lease ends" in str(row) or "example.org" in str(row)]


def test_a_stuck_lane_stops_no_other_and_keeps_its_order(story: Story) -> None:
    endpoint(story)
    events = [story.begins(page(number), page(number + 10)) for number in range(2)]
    for first, _ in events:
        story.handles(first, DeadLetter("policy", PolicyRefused("robots", "disallowed", "nothing")))
        story.ledger.cancel(first.run_id)
    stuck, well = claimed(story)
    story.ledger.webhooks.record(stuck, REFUSED)
    story.ledger.webhooks.record(well, ARRIVED)
    (following,) = claimed(story)
    assert (following.lane, "run.finished" in following.body) == (well.lane, True)
    story.clock.passes(ATTEMPT_SECONDS[0] * (1 + JITTER))
    (again,) = (one for one in claimed(story) if one.lane == stuck.lane)
    assert (again.message_id, again.attempts) == (stuck.message_id, 1)


def test_a_sender_that_died_is_followed_after_its_lease_and_records_no_more(story: Story) -> None:
    endpoint(story)
    ends(story)
    (dead,) = claimed(story)
    assert claimed(story) == []
    story.clock.passes(LEASE_SECONDS)
    (other,) = claimed(story)
    assert other.message_id == dead.message_id
    story.ledger.webhooks.record(dead, REFUSED)
    assert story.ledger.webhooks.find("wh_1")[0].failures == 0
    story.ledger.webhooks.record(other, ARRIVED)
    assert story.ledger.webhooks.deliveries("wh_1", 1)[0].status == "delivered"


def test_attempts_follow_the_plan_and_then_the_lane_goes_on(story: Story) -> None:
    endpoint(story)
    ends(story)
    for tried, pause in enumerate((*ATTEMPT_SECONDS, 0.0), start=1):
        (claim,) = claimed(story)
        story.ledger.webhooks.record(claim, REFUSED)
        (delivery,) = story.ledger.webhooks.deliveries("wh_1", 1)
        assert delivery.attempts == tried
        if delivery.next_attempt_at is not None:
            wait = delivery.next_attempt_at.timestamp() - story.clock()
            assert pause * (1 - JITTER) <= wait <= pause * (1 + JITTER)
            story.clock.passes(wait + 0.001)  # a datetime has whole microseconds
    assert (delivery.status, delivery.next_attempt_at) == ("failed", None)
    assert story.ledger.webhooks.replay("wh_1", DeliveryReplay(ids=(delivery.id,))) == 1
    assert [one.message_id for one in claimed(story)] == [delivery.id]


def test_a_receiver_that_asks_for_a_pause_gets_it_for_all_its_lanes(story: Story) -> None:
    endpoint(story)
    ends(story, 2)
    (first,) = claimed(story, most_of_endpoint=1)
    story.ledger.webhooks.record(first, Attempt(5, 429, retry_after_seconds=400.0))
    story.clock.passes(399)
    assert claimed(story) == []
    story.clock.passes(2)
    assert len(claimed(story)) == 2


def test_an_endpoint_that_is_gone_is_disabled_with_an_event_that_others_hear(story: Story) -> None:
    endpoint(story)
    endpoint(story, "wh_2", types=("webhook.disabled",))
    ends(story)
    (claim,) = claimed(story)
    control_run = story.ledger.webhooks.record(claim, Attempt(5, 410))
    assert control_run is not None
    assert [event.kind for event in control_run.events] == ["WebhookDisabled", "RunFinished"]
    found, _ = story.ledger.webhooks.find("wh_1")
    assert found.disabled_because == "the receiver is gone: it answered 410"
    assert told(story, "wh_2") == ["webhook.disabled"]
    ends(story)
    assert told(story) == ["run.finished"]  # nothing new is noted
    with pytest.raises(Conflict, match="enable it first"):
        story.ledger.webhooks.test("wh_1")
    story.clock.passes(100)
    assert [one.endpoint_id for one in claimed(story)] == ["wh_2"]
    story.ledger.webhooks.change("wh_1", enabled=True)
    assert [one.endpoint_id for one in claimed(story)] == ["wh_1"]


@pytest.mark.parametrize(("failures", "apart_seconds"), [(100, 0.0), (6, 86_400.0 * 1.1)])
def test_it_is_disabled_after_100_failures_or_five_days_without_a_success(
    story: Story, failures: int, apart_seconds: float
) -> None:
    endpoint(story)
    ends(story, 100)
    for _ in range(failures):
        found, _ = story.ledger.webhooks.find("wh_1")
        assert found.disabled_at is None
        rest_seconds = found.paused_until.timestamp() - story.clock() if found.paused_until else 0.0
        story.clock.passes(max(apart_seconds, rest_seconds + 0.001, 0.0))
        story.ledger.webhooks.record(claimed(story, most_of_endpoint=1)[0], REFUSED)
    assert story.ledger.webhooks.find("wh_1")[0].disabled_at is not None


def test_a_failing_endpoint_is_tried_once_at_a_time_and_recovers_with_one_success(story: Story) -> None:
    endpoint(story)
    ends(story, 10)
    for claim in claimed(story, most_of_endpoint=8):
        story.ledger.webhooks.record(claim, REFUSED)
    assert claimed(story) == []
    story.clock.passes(120)
    (probe,) = claimed(story)
    story.ledger.webhooks.record(probe, ARRIVED)
    assert len(claimed(story)) > 1
    assert story.ledger.webhooks.find("wh_1")[0].failures == 0


def test_a_revoked_key_hears_no_more(story: Story) -> None:
    story.ledger.keys.insert("key_1", "hash", "agent", "agent")
    story.ledger.webhooks.insert("wh_1", "https://example.org", EVERY_TYPE, (), "key_1", secrets="[]")
    ends(story)
    story.ledger.keys.revoke("key_1")
    ends(story)
    assert told(story) == ["run.finished"]
    assert claimed(story) == []


def test_a_key_that_ends_hears_no_more_from_then_on(story: Story) -> None:
    until = moment(story.clock()) + timedelta(minutes=1)
    story.ledger.keys.insert("key_1", "hash", "agent", "agent", expires_at=until)
    story.ledger.webhooks.insert("wh_1", "https://example.org", EVERY_TYPE, (), "key_1", secrets="[]")
    ends(story, 2)
    assert len(claimed(story, most_of_endpoint=1)) == 1
    story.clock.passes(60)
    ends(story)
    assert told(story) == ["run.finished"] * 2
    assert claimed(story) == []


def test_what_is_sent_again_while_it_is_sent_is_sent_once_more(story: Story) -> None:
    endpoint(story)
    ends(story)
    (claim,) = claimed(story)
    assert story.ledger.webhooks.replay("wh_1", DeliveryReplay(ids=(claim.message_id,))) == 1
    story.ledger.webhooks.record(claim, ARRIVED)
    (again,) = claimed(story)
    assert (again.message_id, again.attempts) == (claim.message_id, 0)


def test_where_there_is_not_room_for_all_none_is_always_the_last(story: Story) -> None:
    for number in range(5):
        endpoint(story, f"wh_{number}")
    ends(story, 200)
    served = {one.endpoint_id for _ in range(60) for one in story.ledger.webhooks.claim({}, 6, 6)}
    assert len(served) == 5


def test_pruning_takes_deliveries_along_but_those_that_wait(story: Story) -> None:
    endpoint(story)
    begun = [story.begins(page(number))[0] for number in range(3)]
    for event in begun:
        story.handles(event, Done())
    for claim in claimed(story)[:2]:
        story.ledger.webhooks.record(claim, ARRIVED)
    story.clock.passes(3 * 86_400)
    pruning = Pruning(story.ledger.database, story.clock)
    before = moment(story.clock()) - timedelta(days=1)
    assert pruning.count(before).deliveries == 2
    removed = pruning.prune(before, "me")
    assert (removed.runs, removed.deliveries) == (3, 2)
    assert len(claimed(story)) == 1


def test_deleting_takes_the_log_along_and_old_deliveries_leave_it(story: Story) -> None:
    endpoint(story)
    ends(story, 2)
    first, _ = claimed(story)
    story.ledger.webhooks.record(first, ARRIVED)
    assert story.ledger.webhooks.prune() == 0
    story.clock.passes(31 * 86_400)
    assert story.ledger.webhooks.prune() == 1  # the other one still waits
    story.ledger.webhooks.delete("wh_1")
    with pytest.raises(NotFound):
        story.ledger.webhooks.find("wh_1")
    endpoint(story)
    assert told(story) == []
