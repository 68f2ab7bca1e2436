"""A state machine over the ledger and a broker that fails: any order of anything that can happen, by the thousand.

Hypothesis draws the sequences and shrinks the one that breaks a law to its shortest form. The ledger is the real one,
on SQLite or PostgreSQL, and so is the reconciler; the clock, the broker and the workers' processes are models
(`machine_world`). What must be true is said in `machine_laws` and `machine_turns`, and that these laws see anything
at all is proved by bugs that are planted (`machine_bugs`): each must be caught.

`any_order` runs them by the thousand, the tests a few; a seed gives the same ones again.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import structlog
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from sluice.contracts.event import Queue
from sluice.ledger.schema.tables import metadata, versions
from tests.chaos.delivery.machine_bugs import BUGS
from tests.chaos.delivery.machine_deeds import WatchedLedger
from tests.chaos.delivery.machine_laws import Broken
from tests.chaos.delivery.machine_state import Connection
from tests.chaos.delivery.machine_world import CEILINGS, COSTS, STAGES, Emit, Intent, Killed, Seam, World
from tests.chaos.report import Result
from tests.support.ledger_story import NOON, Clock

Intrusion = tuple[int, str, int]
"""At which seam of a method, what happens there, and to whom."""
SEQUENCES = 5_000
STEPS = 50
"""Of a sequence, at most."""
MOST_RUNS = 6
_CHUNK = 250
"""Sequences that one seed draws: few enough that a broken law is found again within a minute."""
_CATCH_WITHIN = 1_000
"""Sequences within which a planted bug must be caught."""


class Store:
    """A ledger that is emptied for each sequence: to make one anew would cost more than the sequence."""

    def __init__(self, url: str, connection: Connection) -> None:
        """`connection` is to look at the same database with, past the ledger."""
        self.clock = Clock()
        self.ledger = WatchedLedger(url, self.clock)
        self.connection = connection

    def world(self) -> World:
        """A world in which nothing has happened yet."""
        self._empty()
        return World(self.ledger, self.clock, self.connection)

    def _empty(self) -> None:
        for table in metadata.tables:
            if table != versions.name:
                self.connection.execute(f"DELETE FROM {table}")
        self.clock.now = NOON

    def close(self) -> None:
        """Close every connection."""
        self.ledger.close()
        self.connection.close()


@contextmanager
def in_memory() -> Iterator[Store]:
    """A ledger on SQLite, in a folder that goes when the block ends; in memory where the machine has such a place."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="machine-", dir=shared if shared.is_dir() else None))
    path = folder / "ledger.sqlite"
    try:
        with closing(Store(f"sqlite:///{path}", sqlite3.connect(path, isolation_level=None))) as store:
            yield store
    finally:
        shutil.rmtree(folder)


@contextmanager
def on_postgres(url: str) -> Iterator[Store]:
    """A ledger on PostgreSQL. `url` is psycopg's, and its database is for this alone."""
    connection = psycopg.connect(url, autocommit=True)
    with closing(Store(url, connection)) as store:  # type: ignore[arg-type]
        yield store


# -- what is drawn

_picks = st.integers(0, 11)
_stages = st.sampled_from(STAGES)
_spends = st.sampled_from(sorted(COSTS))
_reserves = st.sampled_from((None, None, None, None, "a page", "two pages", "a search"))
_numbers = st.integers(1, 3)
_pages = st.builds(Emit, what=st.just("page"), number=_numbers, keyed=st.booleans(), reserve=_reserves)
_documents = st.builds(Emit, what=st.just("document"), number=_numbers, keyed=st.booleans(), reserve=_reserves)
_emits = st.one_of(_pages, _pages, _documents, st.just(Emit("snapshot")))
_intents = st.builds(
    Intent,
    verb=st.sampled_from(("done", "done", "done", "done", "retry", "retry", "discard", "fail", "probe again")),
    emits=st.lists(_emits, max_size=3).map(tuple),
    spend=_spends,
    gaps=st.integers(0, 1),
    retry_seconds=st.sampled_from((0.0, 1.0, 20.0)),
)
_runs = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(("gate", "crawl", "crawl")),
        "first": st.lists(_pages, min_size=1, max_size=4),
        "owner": st.sampled_from(("local", "local", "key_a", "key_b")),
        "corpus": st.sampled_from(("docs", "news")),
        "ceilings": st.sampled_from(("none", *CEILINGS)),
        "deadline_seconds": st.sampled_from((None, 4.0, 30.0)),
        "idempotency_key": st.sampled_from((None, None, None, "k1", "k2")),
    }
)
_steps = st.integers(1, 6)
"""Of a worker's life of one event, which has six."""
_ends = st.sampled_from(("goes on", "goes on", "dies", "dies and is buried", "stops"))
_pauses_seconds = st.sampled_from((0.0, 0.5, 2.5, 4.0, 5.0, 15.0, 15.0, 43_200.0))
_seldom = st.sampled_from((False, False, False, True))
_intrusions = st.none() | st.tuples(
    st.sampled_from((1, 2, 2, 3, 4)), st.sampled_from(("killed", "beat", "beat", "work on", "cancel", "work")), _picks
)


class Machine(RuleBasedStateMachine):
    """The rules: everything that can happen, in any order."""

    def __init__(self, store: Store, seen: Counter[str]) -> None:
        super().__init__()
        self.world = store.world()
        self._seen = seen

    # -- runs

    @initialize(runs=st.lists(_runs, min_size=1, max_size=3))
    def begins(self, runs: list[dict[str, Any]]) -> None:
        for run in runs:
            self.world.begin(**run)

    @precondition(lambda self: len(self.world.state.runs) < MOST_RUNS)
    @rule(run=_runs)
    def begins_one(self, run: dict[str, Any]) -> None:
        self.world.begin(**run)

    @precondition(lambda self: self.world.state.runs)
    @rule(what=st.sampled_from(("feedback", "feedback under a key", "cancel")), pick=_picks)
    def speaks_up(self, what: str, pick: int) -> None:
        if what == "cancel":
            self.world.cancel(pick)
        else:
            self.world.feed_back(pick, "feedback:1" if what == "feedback under a key" else None)

    # -- workers

    @precondition(lambda self: self.world.stages_with_wake_ups)
    @rule(pick=_picks, times=st.integers(1, 5), intent=_intents)
    def works(self, pick: int, times: int, intent: Intent) -> None:
        stage = self._stage(pick)
        for _ in range(times):
            hand = self.world.receive(stage, pick)
            if hand is not None:
                self.world.finish(hand, intent)

    @precondition(lambda self: self.world.stages_with_wake_ups)
    @rule(pick=_picks, steps=st.sampled_from((1, 1, 2, 2, 2, 3, 4, 5, 0)), intent=_intents, then=_ends)
    def begins_work(self, pick: int, steps: int, intent: Intent, then: str) -> None:
        hand = self.world.receive(self._stage(pick), pick)
        if hand is not None:
            self.world.go_on(hand, intent, steps)
            if then != "goes on":
                self.world.end(hand.process, died=then != "stops")
            if then == "dies and is buried":
                self.world.bury(-1)

    @precondition(lambda self: self.world.hands)
    @rule(pick=_picks, steps=_steps, intent=_intents)
    def goes_on(self, pick: int, steps: int, intent: Intent) -> None:
        self._hand(pick, lambda hand: self.world.go_on(hand, intent, steps))

    @precondition(lambda self: self.world.hands)
    @rule(pick=_picks)
    def beats(self, pick: int) -> None:
        self._hand(pick, self.world.beat)

    @precondition(lambda self: self.world.gone)
    @rule(pick=_picks, intrusion=_intrusions)
    def is_buried(self, pick: int, intrusion: Intrusion | None) -> None:
        self.world.bury(pick, self._seam(intrusion))

    @precondition(lambda self: self.world.claims)
    @rule(pick=_picks, intent=_intents)
    def haunts(self, pick: int, intent: Intent) -> None:
        self.world.haunt(pick, intent)

    # -- time, and who mends

    @rule(after_seconds=_pauses_seconds, which=st.integers(0, 1), intrusion=_intrusions, is_last=_seldom)
    def ticks(self, after_seconds: float, which: int, intrusion: Intrusion | None, is_last: bool) -> None:
        self.world.clock.passes(after_seconds)
        self.world.tick(which, self._seam(intrusion))
        if is_last:
            self.world.step_down(which)

    # -- the operator

    @rule(stage=_stages, how=st.sampled_from(("breaker", "breaker", "breaker", "operator", "resume")))
    def rests(self, stage: Queue, how: str) -> None:
        if how == "resume":
            self.world.resume(stage)
        else:
            self.world.pause(stage, by_operator=how == "operator")

    @precondition(lambda self: self.world.state.letters)
    @rule(pick=_picks, force=st.booleans())
    def replays(self, pick: int, force: bool) -> None:
        self.world.replay(pick, force=force)

    # -- the broker

    @rule(what=st.sampled_from(("lose", "double", "mix_up", "lose_everything", "deliver_again")), pick=_picks)
    def fails(self, what: str, pick: int) -> None:
        getattr(self.world.broker, what)(pick)

    @rule(room=st.integers(0, 3), is_away=st.booleans())
    def goes_away_or_comes_back(self, room: int, is_away: bool) -> None:
        self.world.broker.room, self.world.broker.is_away = room if is_away else None, False

    # -- how it ends

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.world.heal()
        finally:
            self._seen.update(self.world.reached)

    def _stage(self, pick: int) -> Queue:
        stages = self.world.stages_with_wake_ups
        return stages[pick % len(stages)]

    def _hand(self, pick: int, act: Callable[[Any], None]) -> None:
        hands = self.world.hands
        if hands:
            act(hands[pick % len(hands)])

    def _seam(self, intrusion: Intrusion | None) -> Seam | None:
        if intrusion is None:
            return None
        at, what, pick = intrusion
        return Seam(at, lambda: self._intrude(what, pick))

    def _intrude(self, what: str, pick: int) -> None:
        match what:
            case "killed":
                raise Killed
            case "beat":
                self._hand(pick, self.world.beat)
            case "work on":
                self._hand(pick, lambda hand: self.world.finish(hand, Intent()))
            case "cancel" if self.world.state.runs:
                self.world.cancel(pick)
            case "work":
                hand = self.world.receive(STAGES[pick % len(STAGES)], pick)
                if hand is not None:
                    self.world.finish(hand, Intent())


# -- running it


def any_order(_folder: Path, seed: int) -> list[Result]:
    """Run `SEQUENCES` sequences on SQLite, then plant every bug; the seed gives the same ones again."""
    reached, problems, sequences = Counter[str](), list[str](), 0
    with quiet(), in_memory() as store:
        while sequences < SEQUENCES and not problems:
            problems = broken_by(store, _CHUNK, seed + sequences, reached)
            sequences += _CHUNK
        missed = tuple(f"not noticed: {bug}" for bug in BUGS if caught(store, bug, seed) is None)
    told = {what: reached[what] for what in ("transactions", "deaths", "fenced", "cancellations", "replays")}
    done = f"{sequences:,} sequences of up to {STEPS} steps"
    planted = f"{len(BUGS)} bugs planted, one at a time"
    noticed = {"noticed": len(BUGS) - len(missed)}
    return [
        Result("any order", done, "no law broken", not problems, {"broken": len(problems), **told}, tuple(problems)),
        Result("planted bugs", planted, "each noticed", not missed, noticed, missed),
    ]


def broken_by(store: Store, examples: int, draw_by: int, seen: Counter[str]) -> list[str]:
    """The shortest sequence that breaks a law, told step by step; empty when none of `examples` does."""
    try:
        _run(store, examples, draw_by, seen, phases=(Phase.generate, Phase.shrink))
    except Broken as broken:
        return ["\n".join([f"seed {draw_by}: {broken}", *getattr(broken, "__notes__", ())])]
    return []


def caught(store: Store, bug: str, draw_by: int) -> str | None:
    """The law that a planted bug breaks; None when it goes unnoticed."""
    with BUGS[bug]():
        try:
            _run(store, _CATCH_WITHIN, draw_by, Counter(), phases=(Phase.generate,))
        except Broken as broken:
            return str(broken).partition("\n")[0]
    return None


def _run(store: Store, examples: int, draw_by: int, seen: Counter[str], phases: tuple[Phase, ...]) -> None:
    def machine() -> Machine:
        return Machine(store, seen)

    run_state_machine_as_test(
        seed(draw_by)(machine),  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            phases=phases,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Log nothing of what is routine here."""
    before = structlog.get_config()["wrapper_class"]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(wrapper_class=before)
