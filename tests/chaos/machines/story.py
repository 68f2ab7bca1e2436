"""Machines, links and the store fail while documents come in through both machines; then everything is counted.

Each step sends a share of the documents, does its harm while they are on their way, waits until nothing is open, and
asks the machines for the last document.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.chaos.delivery.failpoints import PAUSE_SECONDS, Cell
from tests.chaos.delivery.plan import wait_until
from tests.chaos.machines.world import CORPUS, LEASE_SECONDS, World
from tests.chaos.report import Result
from tests.support.namespaces import Machine

DOCUMENTS, SHORT_DOCUMENTS = 20_000, 200
PER_RUN, SHORT_PER_RUN = 100, 8
STORE_AWAY_SECONDS, SHORT_STORE_AWAY_SECONDS = 20.0, 8.0
ASKED = 40
"""Documents that each machine is asked for in the end."""
STEPS = 6


def many_machines(folder: Path, seed: int, short: bool, documents: int | None = None) -> Result:
    """All steps, one after the other. Nothing is drawn: `seed` is not needed."""
    del seed
    count = documents or (SHORT_DOCUMENTS if short else DOCUMENTS)
    share, problems, figures = count // STEPS, list[str](), dict[str, Any]()
    with World(folder, SHORT_PER_RUN if short else PER_RUN) as world:
        story = Story(world, share, problems, figures)
        story.undisturbed()
        story.cut_during_a_claim()
        story.store_away(SHORT_STORE_AWAY_SECONDS if short else STORE_AWAY_SECONDS)
        story.owner_cut_off()
        story.reader_burns()
        story.owner_burns_in_mid_publish()
        story.both_burn()
        story.counts()
    return Result(
        "many machines",
        f"{count:,} documents through both of two machines; a link cut during a claim, the store away, the index's "
        "owner cut off, a reader burnt, the owner burnt in mid-publish, both burnt",
        "0 lost, 0 doubled, equal answers",
        not problems,
        figures,
        tuple(problems),
    )


class Story:
    """The steps, what they measure, and what goes wrong in them."""

    def __init__(self, world: World, share: int, problems: list[str], figures: dict[str, Any]) -> None:
        self._world, self._share, self._problems, self._figures = world, share, problems, figures

    def undisturbed(self) -> None:
        """The rate, and how far the machine that does not index is behind."""
        world, began = self._world, time.monotonic()
        world.send(self._share)
        self._quiet("undisturbed")
        self._figures["documents/s undisturbed"] = self._share / (time.monotonic() - began)
        self._figures["reader has all after s"] = self._has_all("undisturbed", world.other(world.owner))

    def cut_during_a_claim(self) -> None:
        """A machine loses its link with a claim in hand, for longer than the lease, and comes back."""
        world = self._world
        away = world.other(world.owner)
        point = "handler.after"
        world.arm(away, Cell(point, "chunk", "pause"))
        sending = world.sending(self._share)
        fired = world.fired(away, point)
        if fired is None:
            self._problems.append("cut: the machine took nothing to chunk")
        world.network.cut(away.name)
        began = time.monotonic()
        time.sleep(max(PAUSE_SECONDS, 3 * LEASE_SECONDS) + 2.0)
        world.network.mend(away.name)
        self._figures["link cut for s"] = time.monotonic() - began
        sending.join()
        self._quiet("cut")
        if fired is not None:
            self._fenced(away, fired.pid, fired.at)
        self._found("cut", away)

    def _fenced(self, away: Machine, pid: int, at: float) -> None:
        """Was the event that was in hand settled by the other machine, once, with a later epoch?"""
        held = [one for one in self._world.facts(away, "started") if one.pid == pid and one.at <= at]
        if not held:
            self._problems.append("cut: what was in hand is not known")
            return
        event, epoch = held[-1].event, held[-1].epoch
        late = [one for one in self._world.facts(away, "settled") if one.event == event and one.epoch == epoch]
        other = [
            one.epoch
            for machine in self._world.machines.values()
            for one in self._world.facts(machine, "settled")
            if one.event == event and one.epoch > epoch
        ]
        if late or len(other) != 1:
            self._problems.append(f"cut: {event} of epoch {epoch}: settled late {len(late)} times, then by {other}")
        self._figures["fenced"] = 1

    def store_away(self, seconds: float) -> None:
        """The object store takes connections and says nothing for so long."""
        world = self._world
        sending = world.sending(self._share)
        time.sleep(1.0)
        with world.central.store_away():
            time.sleep(seconds)
        sending.join()
        self._quiet("store away")
        self._found("store away", world.owner)

    def owner_cut_off(self) -> None:
        """The machine that indexes loses its link until another has taken over, and comes back with what it had."""
        world = self._world
        owner = world.owner
        other = world.other(owner)
        sending = world.sending(self._share)
        time.sleep(2.0)
        world.network.cut(owner.name)
        began = time.monotonic()
        if not wait_until(lambda: world.owner is other, 120.0):
            self._problems.append("owner cut off: nobody took over")
        self._figures["cut off, taken over after s"] = time.monotonic() - began
        world.network.mend(owner.name)
        sending.join()
        self._quiet("owner cut off")
        self._found("owner cut off", other)
        self._has_all("owner cut off", owner)

    def reader_burns(self) -> None:
        """The machine that does not index is burnt, and a new one comes in its place."""
        world = self._world
        burning = world.other(world.owner)
        sending = world.sending(self._share)
        time.sleep(2.0)
        burning.kill(burnt=True)
        sending.join()
        self._quiet("reader burnt")
        self._found("reader burnt", world.owner)
        self._starts(burning)
        self._found("new reader", burning)

    def owner_burns_in_mid_publish(self) -> None:
        """The machine that indexes is burnt while it publishes; the other one takes over."""
        world = self._world
        owner = world.owner
        other = world.other(owner)
        point = "pointer_swap.before"
        sending = world.sending(self._share // 2)
        sending.join()
        world.arm(owner, Cell(point, "index", "hang"))
        sending = world.sending(self._share - self._share // 2)
        if world.fired(owner, point) is None:
            self._problems.append("owner burnt: it did not publish")
        last = world.documents - 1
        owner.kill(burnt=True)
        killed = time.monotonic()
        if not wait_until(lambda: world.owner is other, 120.0):
            self._problems.append("owner burnt: nobody took over")
        self._figures["taken over after s"] = time.monotonic() - killed
        if world.seconds_until_found(other, last) is None:
            self._problems.append("owner burnt: the standby does not answer with what came before")
        self._figures["standby answers after s"] = time.monotonic() - killed
        sending.join()
        self._quiet("owner burnt")
        self._found("owner burnt", other)
        self._starts(owner)
        self._found("new standby", owner)

    def both_burn(self) -> None:
        """Both machines are burnt at once: what is left is the ledger and the store."""
        world = self._world
        for machine in world.machines.values():
            machine.kill(burnt=True)
        began = time.monotonic()
        for machine in world.machines.values():
            machine.start()
        self._found("both burnt", world.owner)
        self._figures["both burnt, answered after s"] = time.monotonic() - began
        for machine in world.machines.values():
            machine._await_health()  # noqa: SLF001 - as entering it does

    def counts(self) -> None:
        """Everything is there once, and each machine answers alone as the other does."""
        world = self._world
        verdict = world.judge()
        self._problems += [*verdict.lost, *verdict.doubled]
        sent = sum(len(one.documents) for one in world.sent)
        if sent < self._share * STEPS - STEPS:
            self._problems.append(f"only {sent} documents were accepted")
        self._figures |= {"lost": len(verdict.lost), "doubled": len(verdict.doubled), "documents": sent}
        self._figures["records handled again"] = world.handled_again()
        reader = world.other(world.owner)
        self._has_all("counts", reader)
        self._problems += world.judge_reader(reader)
        numbers = range(0, world.documents, max(1, world.documents // ASKED))
        answers = {}
        for machine in (world.owner, reader):
            other = world.other(machine)
            other.stop()
            self._problems += world.wrong_answers(machine, numbers)
            answers[machine.name] = [_comparable(world.answer(machine, number)) for number in numbers]
            self._starts(other)
        if differ := sum(one != two for one, two in zip(*answers.values(), strict=True)):
            self._problems.append(f"{differ} of {len(numbers)} answers differ between the machines")
        self._figures["answers compared"] = len(numbers)

    def _has_all(self, step: str, reader: Machine) -> float:
        """Seconds until the generation of a machine that does not index has every document."""
        began = time.monotonic()
        if not wait_until(lambda: not self._world.judge_reader(reader), 60.0):
            self._problems.append(f"{step}: {reader.name} has not every document after a minute")
        return time.monotonic() - began

    def _starts(self, machine: Machine) -> None:
        machine.start()
        machine._await_health()  # noqa: SLF001 - as entering it does

    def _quiet(self, step: str) -> None:
        if not self._world.quiet():
            self._problems.append(f"{step}: work is left over in {CORPUS}")

    def _found(self, step: str, machine: Machine) -> float | None:
        found = self._world.seconds_until_found(machine, self._world.documents - 1)
        if found is None:
            self._problems.append(f"{step}: {machine.name} does not answer with the last document")
        return found


def _comparable(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["document_id"], one["chunk_id"], one["text"]) for one in answer["chunks"]]
