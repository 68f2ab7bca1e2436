"""What is sent to a real receiver, through the egress proxy, and what is left behind where a sender dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.contracts.event import Event, new_run_id
from sluice.contracts.operations.webhooks import WebhookDelivery, WebhookMade, WebhookRequest
from sluice.ledger.ledger import Ledger, NewRun
from sluice.ledger.webhooks import store
from sluice.workers.context import Context
from sluice.workers.processes import webhook_sender
from sluice.workers.processes.webhook_sender import WebhookSender
from sluice.workers.service.callers import OWN_MACHINE, secret_of
from sluice.workers.service.webhooks import WebhookDesk
from sluice.workers.settings import Settings
from tests.support.hook_receiver import Received, Receiver, receiving
from tests.support.ledger_story import answer
from tests.support.waiting import until

standardwebhooks = pytest.importorskip("standardwebhooks")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def settings(tmp_path: Path, receiver: Receiver) -> Settings:
    return Settings(data_dir=tmp_path, egress={"allow": [receiver.allowed]})  # type: ignore[arg-type]


@pytest.fixture
def context(settings: Settings) -> Iterator[Context]:
    opened = Context(settings)
    yield opened
    opened.close()


@pytest.fixture
def sender(context: Context) -> Iterator[WebhookSender]:
    sender = WebhookSender(context, look_seconds=0.02)
    sender.start()
    yield sender
    sender.stop()


def hook(context: Context, url: str, *types: Any) -> WebhookMade:
    desk = WebhookDesk(context.ledger, context.settings, secret_of(context.settings.data_dir))
    asked = WebhookRequest(url=url, types=types or ("run.finished", "answer.ready"))
    return desk.create(asked, OWN_MACHINE)


def answered(ledger: Ledger, query: str = "what is a lease?") -> str:
    """A run that is answered: two events, in one transaction each."""
    run_id = new_run_id()
    ledger.create_run(NewRun(run_id, "gate", "docs", "0" * 64, query=query), [])
    ledger.add_event(Event.of(answer(query), run_id=run_id, corpus="docs"))
    ledger.cancel(run_id)
    return run_id


def verified(made: WebhookMade, received: Received) -> dict[str, Any]:
    told: dict[str, Any] = standardwebhooks.Webhook(made.secret).verify(received.body, received.headers)
    return told


def last(context: Context, made: WebhookMade) -> WebhookDelivery:
    return context.ledger.webhooks.deliveries(made.id, 1)[0]


def of_runs(received: list[Received]) -> dict[str, list[str]]:
    """The types that came of each run, in order, each message at its first arrival."""
    seen: set[str] = set()
    found: dict[str, list[str]] = defaultdict(list)
    for one in received:
        if one.headers["webhook-id"] not in seen:
            seen.add(one.headers["webhook-id"])
            body = json.loads(one.body)
            found[body["data"]["run_id"]].append(body["type"])
    return found


def test_an_event_arrives_signed_and_the_answer_is_kept_masked(
    context: Context, sender: WebhookSender, receiver: Receiver
) -> None:
    receiver.answer = lambda _: (200, {}, b"thanks, token=sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa " + 5_000 * b"x")
    made = hook(context, receiver.url)
    run_id = answered(context.ledger)
    until(lambda: len(receiver.received) == 2)
    ready, finished = (verified(made, one) for one in receiver.received)
    assert (ready["type"], finished["type"]) == ("answer.ready", "run.finished")
    assert ready["data"]["run_id"] == finished["data"]["run_id"] == run_id
    assert len({one.headers["webhook-id"] for one in receiver.received}) == 2
    assert "A lease ends" not in receiver.received[0].body
    until(lambda: last(context, made).status == "delivered")
    kept = last(context, made).answer
    assert kept is not None
    assert kept.startswith("thanks")
    assert "sk-aaaa" not in kept
    assert len(kept) <= 1_024


def test_a_secret_is_encrypted_and_a_rotated_one_signs_beside_the_new_one(
    context: Context, sender: WebhookSender, receiver: Receiver
) -> None:
    made = hook(context, receiver.url)
    desk = WebhookDesk(context.ledger, context.settings, secret_of(context.settings.data_dir))
    rotated = desk.rotate(made.id, OWN_MACHINE)
    stored = context.ledger.webhooks.find(made.id)[1]
    assert made.secret.removeprefix("whsec_") not in stored
    assert rotated.secret.removeprefix("whsec_") not in stored
    desk.test(made.id, OWN_MACHINE)
    until(lambda: receiver.received)
    for secret in (made.secret, rotated.secret):
        told = standardwebhooks.Webhook(secret).verify(receiver.received[0].body, receiver.received[0].headers)
        assert told["type"] == "webhook.test"


@pytest.mark.parametrize("status", [301, 307, 400, 500])
def test_no_other_answer_counts_and_a_redirect_is_not_followed(
    context: Context, sender: WebhookSender, receiver: Receiver, status: int
) -> None:
    receiver.answer = lambda _: (status, {"location": receiver.url + "/elsewhere"}, b"")
    made = hook(context, receiver.url)
    answered(context.ledger)
    until(lambda: receiver.received and last(context, made).type == "run.finished")
    until(lambda: context.ledger.webhooks.find(made.id)[0].failures == 1)
    assert [one.path for one in receiver.received] == ["/hook"]


def test_gone_disables_and_what_waits_stays(context: Context, sender: WebhookSender, receiver: Receiver) -> None:
    receiver.answer = lambda _: (410, {}, b"")
    made = hook(context, receiver.url)
    answered(context.ledger)
    until(lambda: context.ledger.webhooks.find(made.id)[0].disabled_at)
    assert context.ledger.webhooks.find(made.id)[0].pending == 2


@pytest.mark.parametrize("told", ["3", "date"])
def test_a_pause_that_the_receiver_asks_for_is_kept(
    context: Context, sender: WebhookSender, receiver: Receiver, told: str
) -> None:
    from email.utils import formatdate

    header = told if told != "date" else formatdate(time.time() + 1_000, usegmt=True)
    receiver.answer = lambda _: (503, {"retry-after": header}, b"")
    made = hook(context, receiver.url)
    answered(context.ledger)
    until(lambda: context.ledger.webhooks.find(made.id)[0].paused_until)
    paused_until = context.ledger.webhooks.find(made.id)[0].paused_until
    assert paused_until is not None
    assert (
        0 < paused_until.timestamp() - time.time() < 3.1
        if told == "3"
        else paused_until.timestamp() > time.time() + 900
    )


def test_an_address_that_the_owner_did_not_allow_is_not_reached(
    context: Context, sender: WebhookSender, receiver: Receiver
) -> None:
    for url in (
        "http://127.0.0.1:1/", "https://127.0.0.1/", "https://localhost/", "http://example.org/", "ftp://example.org/",
        "https://user:word@example.org/", f"http://127.0.0.1:{receiver.port}/#x",
    ):  # fmt: skip
        if url == "https://127.0.0.1/":
            continue  # the address is judged when it is dialled, below
        with pytest.raises(InvalidInput, match="url"):
            hook(context, url)
    made = hook(context, "https://127.0.0.1/")
    context.ledger.webhooks.test(made.id)
    until(lambda: last(context, made).error)
    error = last(context, made).error
    assert error is not None
    assert "address" in error
    assert "@" not in error  # nothing of the proxy's secret


def test_a_slow_receiver_holds_up_no_other(
    context: Context, sender: WebhookSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(request: Received) -> tuple[int, dict[str, str], bytes]:
        if request.path == "/hook/slow":
            time.sleep(8)
        return 204, {}, b""

    monkeypatch.setattr(webhook_sender, "ATTEMPT_SECONDS", 5.0)
    receiver.answer = slowly
    slow, well = hook(context, receiver.url + "/slow"), hook(context, receiver.url)
    for _ in range(30):
        answered(context.ledger)
    until(lambda: context.ledger.webhooks.find(well.id)[0].pending == 0, 60)
    assert context.ledger.webhooks.find(slow.id)[0].pending > 40
    until(lambda: context.ledger.webhooks.find(slow.id)[0].failures)
    assert "no answer within 5 s" in str([one.error for one in context.ledger.webhooks.deliveries(slow.id, 100)])


def test_a_thousand_events_arrive_in_order_though_receiver_and_sender_are_killed(
    settings: Settings, context: Context, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 runs of two events. The sender's process is killed between the answer and its record, again and again; the
    receiver goes away for a while and is slow at times."""
    made, ledger = hook(context, receiver.url), context.ledger
    runs = [answered(ledger) for _ in range(500)]
    deaths = 0
    program = "import sys; from tests.integration.processes.test_webhook_sender import die_in_between as die; die(*sys.argv[1:])"
    allowed = receiver.allowed
    for kill_after in (3, 40, 90):
        child = subprocess.Popen([sys.executable, "-c", program, str(settings.data_dir), allowed, str(kill_after)])
        deaths += child.wait(60) == -signal.SIGKILL
        _leases_run_out(ledger)
    assert deaths == 3
    with monkeypatch.context() as patched:
        patched.setattr(store, "ATTEMPT_SECONDS", (0.2,) * 7)
        sender = WebhookSender(context, look_seconds=0.02)
        sender.start()
        count = 0

        def at_times_slow(_: Received) -> tuple[int, dict[str, str], bytes]:
            nonlocal count
            count += 1
            time.sleep(0.2 if count % 50 == 0 else 0)
            return (500 if count % 97 == 0 else 204), {}, b""

        receiver.answer = at_times_slow
        until(lambda: ledger.webhooks.find(made.id)[0].pending == 0, 90)
        sender.stop()
    for one in receiver.received:
        verified(made, one)
    assert of_runs(receiver.received) == {run_id: ["answer.ready", "run.finished"] for run_id in runs}
    assert len(receiver.received) > 1_000  # at least once: those in between came twice


def die_in_between(data_dir: str, allowed: str, kill_after: str) -> None:
    """Send, and die after so many answers that were not all recorded. Called in a process of its own."""
    settings = Settings(data_dir=Path(data_dir), egress={"allow": [allowed]})  # type: ignore[arg-type]
    sender = WebhookSender(Context(settings), look_seconds=0.02)
    record, done = sender.record, 0

    def dies(claim: store.ClaimedDelivery, attempt: store.Attempt) -> None:
        nonlocal done
        done += 1
        if done > int(kill_after):
            os.kill(os.getpid(), signal.SIGKILL)
        record(claim, attempt)

    sender.record = dies  # type: ignore[method-assign]
    sender.start()
    time.sleep(50)


def _leases_run_out(ledger: Ledger) -> None:
    """As if a minute had passed."""
    from sqlalchemy import text

    with ledger.database.installing() as connection:
        connection.execute(text("UPDATE webhook_deliveries SET due_at = 0 WHERE due_at IS NOT NULL"))
