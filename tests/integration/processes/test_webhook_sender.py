"""What is sent to a real receiver, through the egress proxy, and what is left behind where a sender dies."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text
from structlog.testing import capture_logs

from sluice.contracts.errors import InvalidInput
from sluice.contracts.event import Event, new_run_id
from sluice.contracts.operations.webhooks import WebhookDelivery, WebhookMade, WebhookRequest
from sluice.ledger.ledger import Ledger, NewRun
from sluice.ledger.schema.tables import events, operator_actions
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
    desk = WebhookDesk(context.ledger, context.settings, secret_of(context.settings))
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
        if one.id not in seen:
            seen.add(one.id)
            body = json.loads(one.body)
            found[body["data"]["run_id"]].append(body["type"])
    return found


def test_an_event_arrives_signed(context: Context, sender: WebhookSender, receiver: Receiver) -> None:
    made = hook(context, receiver.url)
    run_id = answered(context.ledger)
    until(lambda: len(receiver.received) == 2)
    ready, finished = (verified(made, one) for one in receiver.received)
    assert (ready["type"], finished["type"]) == ("answer.ready", "run.finished")
    assert ready["data"]["run_id"] == finished["data"]["run_id"] == run_id
    assert len({one.headers["webhook-id"] for one in receiver.received}) == 2
    assert "A lease ends" not in receiver.received[0].body
    until(lambda: last(context, made).status == "delivered")


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("thanks, sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "thanks, sk-***"),
        ('{"api_key": "hunter2-hunter2", "ok": true}', '{"api_key": "***", "ok": true}'),
        ("set-cookie: sid=hunter2-hunter2; path=/", "set-cookie: ***; path=/"),
        ("see https://me:hunter2@example.org/?token=hunter2&n=1", "see https://***@example.org/?token=***&n=1"),
        ("Authorization: Bearer hunter2-hunter2", "Authorization: *** ***"),
        ("whsec_aHVudGVyMmh1bnRlcjJodW50ZXIy", "whsec_***"),
        (1_010 * "x" + " password=hunter2", 1_010 * "x" + " password=***"[:14]),
        (5_000 * "x", 1_024 * "x"),
    ],
)
def test_of_an_answer_the_beginning_is_kept_with_secrets_masked(
    context: Context, sender: WebhookSender, receiver: Receiver, answer: str, kept: str
) -> None:
    receiver.answer = lambda _: (200, {}, answer.encode())
    made = hook(context, receiver.url)
    context.ledger.webhooks.test(made.id)
    until(lambda: last(context, made).status == "delivered")
    assert last(context, made).answer == kept


def test_a_secret_is_encrypted_and_a_rotated_one_signs_beside_the_new_one(
    context: Context, sender: WebhookSender, receiver: Receiver
) -> None:
    made = hook(context, receiver.url)
    desk = WebhookDesk(context.ledger, context.settings, secret_of(context.settings))
    rotated = desk.rotate(made.id, OWN_MACHINE)
    stored = context.ledger.webhooks.find(made.id)[1]
    assert made.secret.removeprefix("whsec_") not in stored
    assert rotated.secret.removeprefix("whsec_") not in stored
    context.ledger.webhooks.test(made.id)
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
        "http://127.0.0.1:1/", "https://localhost/", "http://example.org/", "ftp://example.org/",
        "https://user:word@example.org/", f"http://127.0.0.1:{receiver.port}/#x",
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="url"):
            hook(context, url)
    made = hook(context, "https://127.0.0.1/")
    context.ledger.webhooks.test(made.id)
    until(lambda: last(context, made).error)
    error = last(context, made).error
    assert error is not None
    assert "address" in error
    assert "@" not in error  # nothing of the proxy's secret


def test_a_name_that_leads_inside_is_not_followed_whatever_it_was_before(
    context: Context, sender: WebhookSender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy looks a name up once for each connection, judges every address, and dials the one that it judged."""
    looked_up: list[str] = []

    def rebound(host: str, port: object, *more: object, **named: object) -> list[Any]:
        if host.rstrip(".") != "hook.example.org":
            return look_up(host, port, *more, **named)  # type: ignore[arg-type]
        looked_up.append(host)
        inner = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 443))
        return [(*inner[:4], ("93.184.216.34", 443)), inner]

    look_up = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    made = hook(context, "https://hook.example.org/")
    context.ledger.webhooks.test(made.id)
    until(lambda: last(context, made).error)
    assert "127.0.0.1 is not globally routable" in str(last(context, made).error)
    assert len(looked_up) == 1
    assert receiver.received == []


def test_no_line_of_a_log_has_a_secret_of_a_webhook(
    context: Context, sender: WebhookSender, receiver: Receiver
) -> None:
    receiver.answer = lambda _: (410, {}, b"token=hunter2")
    made = hook(context, receiver.url + "?token=very-secret-word")
    with capture_logs() as lines:
        context.ledger.webhooks.test(made.id)
        until(lambda: context.ledger.webhooks.find(made.id)[0].disabled_at)
        sender.stop()
    told = str(lines)
    assert "webhook_attempt_failed" in told
    assert not [one for one in ("very-secret-word", "hunter2", made.secret.removeprefix("whsec_")) if one in told]
    with context.ledger.database.reading() as connection:
        rows = [*connection.execute(select(events)), *connection.execute(select(operator_actions))]
    assert "webhook_disable" in str(rows)
    assert not [one for one in ("very-secret-word", "hunter2", made.secret.removeprefix("whsec_")) if one in str(rows)]


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


@pytest.mark.timeout(600)
def test_a_thousand_events_arrive_in_order_whoever_is_killed_or_refuses(
    settings: Settings, context: Context, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 runs of two events, written while they are sent; pauses are short, and leases end at once."""
    monkeypatch.setattr(store, "ATTEMPT_SECONDS", SHORT_PAUSES)
    figures = disturbed(settings, context, receiver, leases_end=True)
    assert figures["duplicates"] > 0, "those between the answer and its record come twice"


SHORT_PAUSES = (0.2,) * 7
DEATHS = (10, 60, 120)
"""Answers after which the sender's process is killed, before it has recorded one of them."""


def disturbed(
    settings: Settings, context: Context, receiver: Receiver, runs: int = 500, *, leases_end: bool = False
) -> dict[str, float]:
    """Send two events of each run while the sender's process is killed three times, the receiver goes away, is slow, and
    answers 500, 429 and 503 with Retry-After and 410. Each arrives, verified, and in order within its run."""
    made, ledger, chance = hook(context, receiver.url), context.ledger, random.Random(7)

    def moody(request: Received) -> tuple[int, dict[str, str], bytes]:
        verified_ones.append(bool(verified(made, request)))
        draw = chance.random()
        if draw < 0.05:
            time.sleep(0.3)
        status = next(
            (code for code, below in ((410, 0.01), (500, 0.04), (429, 0.05), (503, 0.06)) if draw < below), 204
        )
        return status, ({"retry-after": "1"} if status in (429, 503) else {}), b""

    receiver.answer = moody
    begun: list[str] = []
    verified_ones: list[bool] = []
    writer = threading.Thread(target=lambda: [begun.append(answered(ledger)) for _ in range(runs)])
    started = time.monotonic()
    writer.start()
    program = "import sys; from tests.integration.processes.test_webhook_sender import die_in_between as die; die(*sys.argv[1:])"
    for kill_after in DEATHS:
        pauses = json.dumps(store.ATTEMPT_SECONDS)
        arguments = (str(settings.data_dir), receiver.allowed, str(kill_after), made.id, pauses)
        child = subprocess.Popen([sys.executable, "-c", program, *arguments])
        assert child.wait(120) == -signal.SIGKILL
        if leases_end:
            _leases_run_out(ledger)
    writer.join()
    sender = WebhookSender(context, look_seconds=0.05)
    sender.start()
    away_until = time.monotonic() + 2.0
    receiver.is_away = True

    def is_over() -> bool:
        receiver.is_away = time.monotonic() < away_until
        found, _ = ledger.webhooks.find(made.id)
        if found.disabled_at is not None:
            ledger.webhooks.change(made.id, enabled=True)
        return found.pending == 0

    until(is_over, 1_200)
    seconds = time.monotonic() - started
    sender.stop()
    assert len(verified_ones) == len(receiver.received), "each is verified as it arrives, while its time is right"
    assert of_runs(receiver.taken) == {run_id: ["answer.ready", "run.finished"] for run_id in begun}
    first = {one.id: one for one in reversed(receiver.taken)}
    delays = sorted(
        one.at - datetime.fromisoformat(json.loads(one.body)["timestamp"]).timestamp() for one in first.values()
    )
    return {
        "events": len(first),
        "requests": len(receiver.received),
        "duplicates": len(receiver.taken) - len(first),
        "seconds": seconds,
        "median delay (s)": delays[len(delays) // 2],
        "worst delay (s)": delays[-1],
    }


def die_in_between(data_dir: str, allowed: str, kill_after: str, webhook_id: str, pauses: str) -> None:
    """Send, and die after so many answers that were not all recorded. Called in a process of its own."""
    store.ATTEMPT_SECONDS = tuple(json.loads(pauses))  # type: ignore[assignment]
    settings = Settings(data_dir=Path(data_dir), egress={"allow": [allowed]})  # type: ignore[arg-type]
    context = Context(settings)
    sender = WebhookSender(context, look_seconds=0.05)
    record, done = sender.record, 0

    def dies(claim: store.ClaimedDelivery, attempt: store.Attempt) -> None:
        nonlocal done
        done += attempt.arrived
        if done > int(kill_after):
            os.kill(os.getpid(), signal.SIGKILL)
        record(claim, attempt)

    sender.record = dies  # type: ignore[method-assign]
    sender.start()
    while True:
        time.sleep(0.2)
        if context.ledger.webhooks.find(webhook_id)[0].disabled_at is not None:
            context.ledger.webhooks.change(webhook_id, enabled=True)


def _leases_run_out(ledger: Ledger) -> None:
    """As if a minute had passed."""
    with ledger.database.installing() as connection:
        connection.execute(text("UPDATE webhook_deliveries SET due_at = 0 WHERE due_at IS NOT NULL"))
