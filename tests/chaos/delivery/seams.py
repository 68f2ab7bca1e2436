"""Wraps the functions of the product at which a process of the suite can be harmed; nothing in the product knows of it."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from kombu.transport.virtual import base as virtual

from sluice.contracts.event import DeadLetter, Event, Queue, Retry
from sluice.index.journal.journal import Journal
from sluice.index.local import writer as local_writer
from sluice.index.local.writer import IndexWriter
from sluice.ledger.ledger import Claim, Ledger, NotClaimed
from sluice.ledger.schedules import Schedules
from sluice.ledger.trust.blobs import Erasure
from sluice.ledger.trust.forgotten import Forgotten
from sluice.ledger.trust.quarantine import Quarantine
from sluice.workers import handlers, schedules, transfer
from sluice.workers.broker import rabbit
from sluice.workers.broker.transport import Transport
from sluice.workers.processes import webhook_sender
from sluice.workers.processes.reconciler import Reconciler
from sluice.workers.processes.webhook_sender import WebhookSender
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.runtime.shared_blobs import SharedBlobs
from tests.chaos.delivery.failpoints import ERASING, MOVING, Failpoints


def install(failpoints: Failpoints) -> None:
    """Wrap every seam that processes of this role pass."""
    holding = threading.local()
    _wrap_ledger(failpoints, holding)
    _wrap_handlers(failpoints, holding)
    _set(Transport, "publish_wake_ups", failpoints.around("publish", Transport.publish_wake_ups, _is_some))
    for channel in (virtual.Channel, rabbit.Channel):
        _set(channel, "basic_ack", _acknowledging(failpoints, channel))
    _set(rabbit.Channel, "basic_consume", _consuming(rabbit.Channel.basic_consume))
    _set(Reconciler, "tick", _witnessed_tick(failpoints))
    if failpoints.role == "index":
        _wrap_index(failpoints)
    _wrap_erasing(failpoints)
    if failpoints.role == "reconcile":
        _wrap_hooks(failpoints)
        _set(schedules, "begin", failpoints.around("schedule_begin", schedules.begin))
        _set(Schedules, "ran", failpoints.around("schedule_move", Schedules.ran))


def _wrap_ledger(failpoints: Failpoints, holding: threading.local) -> None:
    witness = failpoints.witness
    claim_next, settle = Ledger.claim_next, Ledger.settle

    def witnessed_claim(ledger: Ledger, stage: Queue, *arguments: Any, **named: Any) -> Claim | NotClaimed:
        claim = claim_next(ledger, stage, *arguments, **named)
        if isinstance(claim, Claim):
            is_held(claim)
        return claim

    def is_held(claim: Claim) -> None:
        holding.claim = claim
        failpoints.turns_to(str(claim.event.queue))
        failpoints.handles(claim.event.corpus)
        witness.say("claimed", event=claim.event.id, epoch=claim.epoch, kind=claim.event.kind)

    def witnessed_settle(ledger: Ledger, claim: Claim, outcome: Any, **named: Any) -> Any:
        settled = settle(ledger, claim, outcome, **named)
        match outcome:
            case Retry():
                what = "retried"
            case DeadLetter():
                what = "parked"
            case _:
                what = "settled"
        witness.say(what, event=claim.event.id, epoch=claim.epoch, kind=claim.event.kind)
        if settled.following is not None:
            goes_on()
            is_held(settled.following)
        return settled

    def claims(ledger: Ledger, stage: Queue, *arguments: Any, **named: Any) -> Claim | NotClaimed:
        failpoints.turns_to(stage)
        claim: Claim | NotClaimed = around_claim(ledger, stage, *arguments, **named)
        return claim

    around_claim = failpoints.around("claim", witnessed_claim)
    goes_on = failpoints.around("go_on", lambda: None)
    _set(Ledger, "claim_next", claims)
    _set(Ledger, "settle", failpoints.around("settle", witnessed_settle))
    _set(Ledger, "create_run", failpoints.around("accept", Ledger.create_run))


def _acknowledging(failpoints: Failpoints, kind: Any) -> Any:
    straight = kind.basic_ack
    acknowledge = failpoints.around("ack", straight)

    def acknowledges(channel: Any, *arguments: Any, **named: Any) -> None:
        stage = getattr(channel, "_stage", "")  # what it takes from stands nowhere else
        if stage:
            failpoints.turns_to(stage)
        (acknowledge if stage else straight)(channel, *arguments, **named)

    return acknowledges


def _consuming(consume: Any) -> Any:
    def consumes(channel: Any, queue: str = "", *arguments: Any, **named: Any) -> Any:
        channel._stage = queue.rpartition(".")[2]  # noqa: SLF001 - as the channel of Redis has it
        return consume(channel, queue, *arguments, **named)

    return consumes


def _witnessed_tick(failpoints: Failpoints) -> Any:
    tick = failpoints.around("tick", Reconciler.tick)

    def witnessed(reconciler: Reconciler) -> Any:
        done = tick(reconciler)
        failpoints.witness.say("ticked")
        return done

    return witnessed


def _wrap_handlers(failpoints: Failpoints, holding: threading.local) -> None:
    witness = failpoints.witness

    def witnessed(handler: handlers.Handler) -> handlers.Handler:
        def handle(event: Event, context: Any) -> Any:
            # Without a claim where a new owner of the index handles again what the old one had settled.
            epoch = getattr(getattr(holding, "claim", None), "epoch", 0)
            witness.say("started", event=event.id, epoch=epoch, kind=event.kind)
            outcome = broken(event, context)
            witness.say("effected", event=event.id, epoch=epoch, kind=event.kind)
            return outcome

        broken = failpoints.around("handler", handler)
        return handle

    for kind, handler in handlers.HANDLERS.items():
        handlers.HANDLERS[kind] = witnessed(handler)


def _wrap_index(failpoints: Failpoints) -> None:
    _set(Journal, "append", failpoints.around("journal_append", Journal.append, _is_some))
    _set(os, "fsync", failpoints.around("journal_fsync", os.fsync, _is_journal))
    _set(os, "rename", failpoints.around("snapshot_rename", os.rename, _is_generation))
    _set(os, "replace", failpoints.around("pointer_swap", os.replace, _is_pointer))


def _wrap_erasing(failpoints: Failpoints) -> None:
    shared = "SLUICE_OBJECT_STORE__URL" in os.environ
    owners: dict[str, tuple[Any, str]] = {
        "hold": (Quarantine, "hold"),
        "release": (Quarantine, "release"),
        "forget": (Forgotten, "forget"),
        "removal": (IndexWriter, "remove"),
        "erase": (IndexWriter, "erase"),
        "drop": (local_writer, "drop_others"),
        "blob": (SharedBlobs if shared else BlobStore, "remove_unused"),
        "pages": (Erasure, "forget_pages"),
        "export": (transfer, "pack"),
    }
    for seam, (_, roles) in (ERASING | MOVING).items():
        if failpoints.role in roles:
            owner, name = owners[seam]
            _set(owner, name, failpoints.around(seam, getattr(owner, name)))


def _wrap_hooks(failpoints: Failpoints) -> None:
    _set(webhook_sender, "sign", failpoints.around("hook_sign", webhook_sender.sign))
    _set(WebhookSender, "record", failpoints.around("hook_record", WebhookSender.record))


def _is_some(_: Any, entries: Any, *_others: Any) -> bool:
    return bool(entries)


def _is_journal(descriptor: Any) -> bool:
    if not isinstance(descriptor, int):
        descriptor = descriptor.fileno()
    path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    return path.suffix == ".log" and path.parent.name == "journal"


def _is_generation(source: Any, _target: Any, **_: Any) -> bool:
    path = Path(source)
    return path.name.startswith(".tmp-") and path.parent.name == "generations"


def _is_pointer(_source: Any, target: Any, **_: Any) -> bool:
    return Path(target).name == "CURRENT"


def _set(owner: Any, name: str, wrapped: Any) -> None:
    """Put a wrapper where a function was, which must be there: a seam that moved is to be noticed."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner!r} has no {name}: a seam of the suite has moved")
    setattr(owner, name, wrapped)
