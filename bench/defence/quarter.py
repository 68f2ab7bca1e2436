"""A quarter of 20,000 runs in a hidden world that changes twice, with the state machine and evaluator of the product.

The world says how good answers are that the web has a part in, and how good those of the corpus alone; a configuration
says how often the web is asked. What the world is, the state machine learns from judged runs alone, an hour late.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sluice.contracts.learning.control import Defence, DefenceName
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.defence import FULL, Change, DefenceState, Window, heal, trip, watch
from sluice.evaluation.evaluator import Evaluator, Windowing
from sluice.workers.wiring.steering import draw_of_trickle

RUNS, DAYS = 20_000, 90
DAY = 86_400.0
BEGAN = datetime(2031, 1, 1, tzinfo=UTC).timestamp()
JUDGED = 0.6
"""Share of the runs that somebody judges."""
GRACE_SECONDS = 3_600.0
TRICKLE_SHARE, TRICKLE_PER_DAY = 0.05, 50
"""As the settings are by default."""
NEW, BEFORE = "a" * 64, "b" * 64
OUTSIDE = {NEW: 0.6, BEFORE: 0.15}
"""Share of the questions for which each configuration asks the web."""
CORPUS_ALONE = 0.78
"""How often an answer of the corpus alone does well."""
OUTSIDE_USD = 0.01
STALE_SECONDS = 30 * DAY
NAMES: tuple[DefenceName, ...] = ("satisfaction", "freshness", "latency")


@dataclass(frozen=True)
class Era:
    """From a day on, how often answers with a part of the web do well."""

    from_day: float
    web: float


WORLD = (Era(0, 0.86), Era(30, 0.30), Era(60, 0.95))


@dataclass
class Told:
    """What happened: `changes` as (day, defence, trip or heal, closed windows since the world last changed)."""

    evaluator: Evaluator
    runs: list[RunOutcome] = field(default_factory=list)
    changes: list[tuple[float, DefenceName, Change, int]] = field(default_factory=list)


def play(seed: int, *, defended: bool = True, world: tuple[Era, ...] = WORLD) -> Told:
    """One quarter."""
    return _Quarter(seed, defended, world).play()


class _Quarter:
    def __init__(self, seed: int, defended: bool, world: tuple[Era, ...]) -> None:
        self._random = random.Random(seed)
        self._seed, self._defended, self._world = seed, defended, world
        self._states: dict[DefenceName, DefenceState] = {name: DefenceState() for name in NAMES}
        self._told = Told(Evaluator(Windowing(grace_seconds=GRACE_SECONDS, kept=400)))
        self._trickle: dict[int, int] = {}

    def play(self) -> Told:
        """Run after run; each is looked at an hour later."""
        waiting: deque[RunOutcome] = deque()
        for number, at in enumerate(sorted(self._random.uniform(0, DAYS) for _ in range(RUNS))):
            while waiting and waiting[0].decided_at.timestamp() <= BEGAN + at * DAY - GRACE_SECONDS:
                self._look(waiting.popleft(), at)
            waiting.append(self._run(number, at))
        self._told.evaluator.fold(self._told.runs)
        return self._told

    def _run(self, number: int, day: float) -> RunOutcome:
        stands = [state for state in self._states.values() if state.tripped]
        run_id = f"run_{self._seed}_{number}"
        is_trickle = bool(stands) and draw_of_trickle(run_id) < TRICKLE_SHARE and self._has_room(int(day))
        steered = bool(stands) and not is_trickle
        configuration = BEFORE if steered else NEW
        outside = self._random.random() < OUTSIDE[configuration]
        does_well = self._random.random() < (_era(self._world, day).web if outside else CORPUS_ALONE)
        is_judged = self._random.random() < JUDGED
        age = self._random.uniform(20, 80) * DAY
        gain = self._random.uniform(0.2, 0.8) * age if outside else 0.0
        decided_at = datetime.fromtimestamp(BEGAN + day * DAY, UTC)
        run = RunOutcome(
            run_id=run_id,
            corpus="docs",
            profile="default",
            plan=Plan.FULL_LOOP if outside else Plan.RETRIEVE,
            config_hash=configuration,
            is_trickle=is_trickle,
            is_stepped_back=steered,
            decided_at=decided_at,
            status="finished",
            usd=OUTSIDE_USD if outside else 0.0,
            milliseconds=self._random.lognormvariate(8.5 if outside else 4.0, 0.5),
            external_calls=4 if outside else 0,
            cited_age_seconds=age - gain,
            cited_age_without_crawl_seconds=age,
            signals={"task_satisfaction": float(does_well)} if is_judged else {},
            judged_at=decided_at if is_judged else None,
        )
        self._told.runs.append(run)
        return run

    def _has_room(self, day: int) -> bool:
        self._trickle[day] = self._trickle.get(day, 0) + 1
        return self._trickle[day] <= TRICKLE_PER_DAY

    def _look(self, run: RunOutcome, day: float) -> None:
        if not self._defended:
            return
        for name in NAMES:
            state, change = watch(name, self._states[name], run, STALE_SECONDS)
            if change:
                self._told.changes.append((day, name, change, self._windows_since(state, day)))
            if change == "trip":
                state = trip(state, _defence(name, run), BEFORE)
            self._states[name] = heal(state) if change == "heal" else state

    def _windows_since(self, state: DefenceState, day: float) -> int:
        """Windows of the defence that closed since the world last changed, the one of the change included."""
        since = BEGAN + _era(self._world, day).from_day * DAY
        return sum(closed.closed_at >= since for closed in state.closed)


def _era(world: tuple[Era, ...], day: float) -> Era:
    return [era for era in world if era.from_day <= day][-1]


def _defence(name: DefenceName, run: RunOutcome) -> Defence:
    facts = {"step": "previous_configuration", "profile": run.profile, "since": run.decided_at}
    return Defence.model_validate({"name": name, **facts, "why": "", "lifted_by": ""})


def trips_of_quiet_quarters(satisfaction: float, quarters: int, seed: int) -> int:
    """In how many quarters of unchanging satisfaction something trips."""
    generator = random.Random(seed)
    return sum(any(_quiet(satisfaction, generator)) for _ in range(quarters))


def _quiet(satisfaction: float, generator: random.Random) -> Iterator[bool]:
    """Whether each window of a quarter, with its like, trips the defence; only the first time matters.

    All runs of a window but the last are put into it at once, which changes nothing but the time that it takes.
    """
    facts = {"run_id": "run_1", "corpus": "docs", "profile": "default", "plan": Plan.RETRIEVE, "config_hash": NEW}
    moment = datetime.fromtimestamp(BEGAN, UTC)
    well, badly = (
        RunOutcome.model_validate({**facts, "decided_at": moment, "signals": {"task_satisfaction": value}})
        for value in (1.0, 0.0)
    )
    state = DefenceState(configuration=NEW)
    for _ in range(round(RUNS * JUDGED) // FULL):
        values = tuple(float(generator.random() < satisfaction) for _ in range(FULL - 1))
        window = Window(began_at=BEGAN, values=values, ages=(0.0,) * len(values))
        state = state.model_copy(update={"window": window})
        run = well if generator.random() < satisfaction else badly
        state, change = watch("satisfaction", state, run, STALE_SECONDS)
        yield change == "trip"
        if change == "trip":
            return
