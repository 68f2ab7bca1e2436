"""Checks the outcomes of the gate's runs; trips the gate's defences (steps back), and heals them again.

One process of an instance writes its findings: the one that holds a lease in the ledger. Runs are read in the order
of their decisions, each once, `evaluation.grace_minutes` after it, so that late feedback is included. They advance the
states of `evaluation.defence`, which are written together with the position and the trips and heals. A process
that dies meanwhile writes nothing: the next look reads the same runs.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from sluice.contracts.learning.control import DefenceName, Pin, Step
from sluice.contracts.learning.events import DefenceHealed, DefenceTripped
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.evaluation import defence as rules
from sluice.evaluation.defence import DefenceState, Scope
from sluice.evaluation.evaluator import GRACE_SECONDS
from sluice.ledger.audit import ControlChange
from sluice.ledger.learning.controls import DefenceRow, Position
from sluice.ledger.learning.outcomes import Place
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.service.learning.control import announce_control, subject_of
from sluice.workers.wiring.steering import Key, key_of

log = structlog.get_logger(__name__)

LOOK_SECONDS = 10.0
RUNS_AT_ONCE = 2_000
"""Runs read in one look: after an outage the backlog takes several looks, each of half a second."""
_LEASE = "self-defence"
_BY_RUNS: tuple[DefenceName, ...] = ("satisfaction", "freshness", "latency")
_UNITS = ("usd", "pages", "bytes", "tokens", "milliseconds")


@dataclass
class _Look:
    """Result of one look: the states by defence and scope, the keys of changed states, and the changes to record."""

    at: datetime
    states: dict[Key, DefenceState]
    pins: dict[Key, Pin]
    changed: set[Key] = field(default_factory=set)
    changes: list[ControlChange] = field(default_factory=list)

    def put(self, key: Key, state: DefenceState) -> None:
        """Store a state and note whether it changed."""
        if self.states.get(key) != state:
            self.states[key] = state
            self.changed.add(key)

    def trip(self, key: Key, step: Step, why: str, lifted_by: str, falls_back_to: str | None = None) -> None:
        """Trip a defence, and add that to the changes."""
        state, defence = self.states[key], rules.stepping_back(*key, step, self.at, why, lifted_by)
        tripped = DefenceTripped(defence=defence, configuration=state.configuration, falls_back_to=falls_back_to)
        self.changes.append(ControlChange((tripped,), "defence_trip", subject_of(*key), note=why))
        self.put(key, rules.trip(state, defence, falls_back_to))

    def heal(self, key: Key, by: str, why: str) -> None:
        """End a step back, and add that to the changes."""
        healed = DefenceHealed.model_validate({**rules.named(*key), "by": by, "why": why})
        self.changes.append(ControlChange((healed,), "defence_heal", subject_of(*key), note=why))
        self.put(key, rules.heal(self.states[key]))

    def rows(self) -> Iterable[DefenceRow]:
        """Yield the rows of the states that changed."""
        for key in sorted(self.changed):
            name, (profile, corpus, owner) = key
            state = self.states[key]
            since = state.tripped.since.timestamp() if state.tripped else None
            yield DefenceRow(name, profile, state.model_dump_json(), since, corpus, owner, self.pins.get(key))


class SelfDefence:
    """One process's watch over the outcomes of the gate's runs."""

    def __init__(self, context: Context, grace_seconds: float = GRACE_SECONDS) -> None:
        """`grace_seconds` is the time after its decision at which a run is read."""
        self._context = context
        self._settings = context.settings
        self._ledger = context.ledger
        self._grace_seconds = grace_seconds
        self._holder = secrets.token_hex(8)

    @property
    def is_on(self) -> bool:
        """Whether the settings enable defences; a gate that only observes has nothing to step back from."""
        return self._settings.defence.enabled and self._settings.gate.mode == "enforce"

    def look(self) -> None:
        """Read the new runs, and trip or heal defences by them."""
        seen, rows = self._ledger.defences.rows()
        now = self._ledger.clock()
        look = _Look(
            datetime.fromtimestamp(now, UTC),
            {key_of(row): DefenceState.model_validate_json(row.state) for row in rows},
            {key_of(row): row.pin for row in rows if row.pin},
        )
        place = Place(seen.decided_at, seen.run_id) if seen.writes else Place(now - rules.LONGEST_SECONDS)
        runs, place = self._ledger.outcomes.page(place, now - self._grace_seconds, RUNS_AT_ONCE)
        for run in runs:
            self._read(run, look)
        self._watch_cost(look)
        if runs or look.changed:
            if not self._ledger.lease(_LEASE, self._holder, 3 * LOOK_SECONDS):
                return  # another process does it; without changes no lease is taken
            position = Position(place.moment, place.run_id)
            created = self._ledger.defences.write(seen, position, look.rows(), look.changes)
            if created is None:
                return
            for run_of_change in created:
                announce_control(self._context, run_of_change)
        for change in look.changes:
            log.warning(change.action, subject=change.subject, note=change.note)
        stand: Counter[tuple[str, str]] = Counter()
        for (name, scope), state in look.states.items():
            stand[name, scope.profile] += state.tripped is not None
        for labels, scopes in stand.items():
            metrics.SELF_DEFENCE_ACTIVE.labels(*labels).set(scopes)

    def _read(self, run: RunOutcome, look: _Look) -> None:
        """Count the run in every scope that holds it, but for what an operator holds on or off."""
        for name in _BY_RUNS:
            own = rules.scope_of(name, run)
            if rules.pinned(look.pins, name, own) is None:
                for scope in own.around():
                    self._watch((name, scope), run, look)

    def _watch(self, key: Key, run: RunOutcome, look: _Look) -> None:
        name, scope = key
        before, freshness = look.states.get(key, DefenceState()), self._settings.freshness
        stale_seconds = 86_400 * freshness.target_age_days.get(run.profile, freshness.half_life_days)
        state, change = rules.watch(name, before, run, stale_seconds, scope)
        if state.configuration is not None and state.configuration != before.configuration:
            self._ledger.configurations.record(run.profile, state.configuration, run.decided_at.timestamp())
        look.put(key, state)
        windows = "; ".join(closed.why or "" for closed in state.closed[-rules.IN_A_ROW :])
        if change == "trip":
            step, falls_back_to, why = self._step(key, state, look, windows)
            of_corpus = "" if scope.corpus == rules.ALL else f" --corpus {scope.corpus}"
            command = f"`sluice gate defences {name} --lift --profile {scope.profile}{of_corpus}`"
            look.trip(key, step, why, f"{_HEALED_BY[name]}, or {command}", falls_back_to)
        elif change == "heal" and before.configuration != rules.configuration_of(run):
            look.heal(key, "configuration", f"configuration {rules.configuration_of(run)[:12]} took its place")
        elif change == "heal":
            look.heal(key, "data", windows)

    def _step(self, key: Key, state: DefenceState, look: _Look, windows: str) -> tuple[Step, str | None, str]:
        name, scope = key
        if name == "latency":
            return "lower_plan", None, windows
        failed = {one for (_, of), other in look.states.items() if of == scope for one in other.failed}
        before = self._ledger.configurations.before(scope.profile, state.configuration or "", failed)
        if before is None:
            return "retrieve_only", None, f"{windows}; there is no configuration before"
        return "previous_configuration", before, windows

    def _watch_cost(self, look: _Look) -> None:
        """Step back to the corpus alone where a ceiling of the day is nearly used up; heal again where none is."""
        key: Key = ("cost", Scope())
        if key in look.pins:
            return
        state = look.states.get(key, DefenceState())
        look.put(key, state)
        spent, budget = self._ledger.spent_today(), self._settings.budget
        ceilings = {unit: getattr(budget, f"day_{unit}") for unit in _UNITS}
        used = {f"budget.day_{unit}": getattr(spent, unit) / most for unit, most in ceilings.items() if most}
        verdict, why = rules.judge_cost(used)
        if state.tripped is None and verdict == "bad" and state.lifted_day != look.at.date().isoformat():
            ceiling = f"a higher ceiling (below {rules.FAR:.0%} of it)"
            lifted_by = f"the next UTC day, {ceiling}, or `sluice gate defences cost --lift`"
            look.trip(key, "retrieve_only", why, lifted_by)
        elif state.tripped is not None and verdict in ("good", "void"):
            look.heal(key, "data", why)


_HEALED_BY: dict[DefenceName, str] = {
    "satisfaction": f"two windows of the trickle that are surely above {rules.FLOOR + rules.HEAL_MARGIN:.2f}",
    "freshness": "two windows of the trickle in which crawling gains freshness",
    "latency": "two windows of the trickle whose p95 is within the threshold",
}
