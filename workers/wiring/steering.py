"""What steers one decision beside its profile, at its time: flags, steps back in force (defences), a learned model.

The active defences are read from the ledger at most once a second. A share of the runs, drawn by a hash of the run's id
and limited for each UTC day, ignores the defences: the trickle, by which they heal. A defence for cost has no trickle:
the trickle would spend what it saves.

`evaluation.learned_gate` knows the places of the files of learned models. A model that is rolled out is stored as a
blob under its SHA-256: the file may change or vanish, and recorded decisions can still be recomputed.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, cast

import structlog

from sluice.contracts.document import parse_host
from sluice.contracts.errors import Conflict, Corrupted, InvalidInput, NotFound, SluiceError, Unavailable
from sluice.contracts.gate import GateRequested, PolicyState
from sluice.contracts.learning.control import Control, Defence, DefenceName, Pin
from sluice.contracts.learning.passages import PassageMark
from sluice.evaluation.defence import ALL, DefenceState, Scope, pinned
from sluice.evaluation.learned_gate import MODEL, find_model
from sluice.gate.learned.model import GateModel
from sluice.gate.learned.rollout import draw
from sluice.gate.profile import Profile, choose_profile
from sluice.gate.settings import DefenceSettings
from sluice.gate.veto import MEMORY_POLICY, policy_of_corpus
from sluice.ledger.learning.controls import DefenceRow
from sluice.ledger.ledger import Ledger
from sluice.memory.qdrant_schema import is_memory_corpus
from sluice.otel import metrics
from sluice.trust.confidence import JudgedAnswer, fit_prior
from sluice.trust.source_trust import weigh_marks
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.runtime.flags import FlagReader
from sluice.workers.settings import Settings
from sluice.workers.wiring.corpora import policy_of
from sluice.workers.wiring.inject import Step

log = structlog.get_logger(__name__)

Key = tuple[DefenceName, Scope]

LOOK_SECONDS = 1.0
"""Seconds for which a reading of the ledger is reused."""
SALT = "defence trickle:"
"""Salt of this draw alone: a run in the trickle is no likelier to be in a canary or a sample."""


PRIOR_SECONDS = 60.0
"""Seconds for which the prior of a corpus is reused."""
MOST_JUDGED = 500
"""Latest judged runs of a corpus that its prior rests on."""


class Priors:
    """The shift of each corpus's confidence by its own outcomes, as one process knows it. Thread-safe."""

    def __init__(self, ledger: Ledger, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ledger, self._monotonic = ledger, monotonic
        self._known: dict[str, tuple[float, float]] = {}

    def of(self, corpus: str) -> float:
        """Return the prior of a corpus, at most `PRIOR_SECONDS` old; 0 where no ledger answers that knows it."""
        read_at, prior = self._known.get(corpus, (-math.inf, 0.0))
        if self._monotonic() - read_at >= PRIOR_SECONDS:
            try:
                prior = self._fit(corpus)
            except Unavailable as error:
                log.warning("prior_unread", corpus=corpus, error=str(error))
            self._known[corpus] = self._monotonic(), prior
        return prior

    def _fit(self, corpus: str) -> float:
        runs = self._ledger.outcomes.judged_from(corpus, MOST_JUDGED)
        if not runs:
            return 0.0
        answers = [JudgedAnswer(one.confidence or 0.0, one.satisfaction or 0.0, one.label_of) for one in runs]
        owners = self._ledger.keys.agents() | {one.owner for one in runs}
        return fit_prior(answers, has_several=len(owners) > 1)


DOUBT_SECONDS = 10.0
"""Seconds for which what callers say against a corpus's passages is reused."""


class Doubts:
    """What callers say against passages of each corpus, as one process knows it. Thread-safe."""

    def __init__(self, ledger: Ledger, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ledger, self._monotonic = ledger, monotonic
        self._known: dict[str, tuple[float, dict[str, float], dict[str, float]]] = {}

    def passages(self, corpus: str) -> Mapping[str, float]:
        """Return the doubt of each marked passage of a corpus; none where no ledger answers."""
        return self._of(corpus)[1]

    def pages(self, corpus: str) -> Mapping[str, float]:
        """Return the doubt of each page that is called wrong or harmful, by its URL; and of its host, by the host's
        name, where several of its pages are."""
        return self._of(corpus)[2]

    def drop(self, corpus: str) -> None:
        """Read a corpus's marks anew at the next use."""
        self._known.pop(corpus, None)

    def _of(self, corpus: str) -> tuple[float, dict[str, float], dict[str, float]]:
        known = self._known.get(corpus, (-math.inf, {}, {}))
        if self._monotonic() - known[0] >= DOUBT_SECONDS:
            passages, pages = known[1:]
            try:
                marks = self._ledger.marks.of_corpus(corpus)
                passages, pages = weigh_marks(marks), _doubted_pages(marks)
            except Unavailable as error:
                log.warning("marks_unread", corpus=corpus, error=str(error))
            self._known[corpus] = known = self._monotonic(), passages, pages
        return known


def _doubted_pages(marks: Sequence[PassageMark]) -> dict[str, float]:
    bad = [one for one in marks if one.url and one.reason in ("wrong", "harmful", "attack")]
    by_url = weigh_marks(one._replace(chunk_id=one.url or "") for one in bad)
    of_host = defaultdict[str, list[float]](list)
    for url, doubt in by_url.items():
        of_host[parse_host(url) or ""].append(doubt)
    hosts = {host: sum(doubts) / len(doubts) for host, doubts in of_host.items() if host and len(doubts) > 1}
    return hosts | by_url


@dataclass(frozen=True, slots=True)
class StepsBack:
    """The active defences for one decision. `profile` decides, instead of the configuration `fallback_from` if set."""

    profile: Profile
    defences: tuple[Defence, ...] = ()
    is_trickle: bool = False
    fallback_from: str | None = None


class StandingDefences:
    """The active defences as one process knows them. Thread-safe."""

    def __init__(
        self,
        ledger: Ledger,
        blobs: BlobStore,
        settings: DefenceSettings,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger, self._blobs, self._settings, self._monotonic = ledger, blobs, settings, monotonic
        self._lock = threading.Lock()
        self._rows: dict[Key, tuple[DefenceState, Pin | None]] = {}
        self._read_at: float | None = None
        self._profiles: dict[str, Profile] = {}

    def of(self, run_id: str, profile: Profile) -> StepsBack:
        """Return the active defences for a run that `profile` would decide."""
        if not self._settings.enabled:
            return StepsBack(profile)
        states, is_held = self._applying(run_id, profile)
        defences = [state.tripped for state in states if state.tripped is not None]
        if not defences:
            return StepsBack(profile)
        can_heal = not is_held and all(defence.name != "cost" for defence in defences)
        if can_heal and self._is_trickle(run_id, profile.name):
            return StepsBack(profile, tuple(defences), is_trickle=True)
        fallback = next((state.falls_back_to for state in states if state.falls_back_to is not None), None)
        if fallback is None:
            return StepsBack(profile, tuple(defences))
        before = self._profile(fallback)
        if before is None:
            return StepsBack(profile, tuple(map(_alone, defences)))
        configured = next(state.configuration for state in states if state.falls_back_to is not None)
        return StepsBack(before, tuple(defences), fallback_from=configured)

    def _applying(self, run_id: str, profile: Profile) -> tuple[list[DefenceState], bool]:
        """Return the defences that concern the run, each once, the widest; and whether an operator holds one on."""
        standing = self._standing()
        if not standing:
            return [], False
        run = Scope(profile.name, *self._ledger.tenancy(run_id))
        pins = {(key, scope): pin for (key, scope), (_, pin) in standing.items() if pin}
        found: dict[DefenceName, DefenceState] = {}
        for (name, scope), (state, pin) in standing.items():
            held = pinned(pins, name, run)
            concerned = scope.covers(run) and held != "off" and (pin == "on") >= (held == "on")
            if concerned and (pin == "on" or scope.profile == ALL or measured_on(state) == profile.config_hash):
                found.setdefault(name, state)
        return list(found.values()), any(pinned(pins, name, run) == "on" for name in found)

    def _standing(self) -> dict[Key, tuple[DefenceState, Pin | None]]:
        with self._lock:
            now = self._monotonic()
            if self._read_at is None or now - self._read_at >= LOOK_SECONDS:
                rows = self._ledger.defences.standing()
                self._rows = {key_of(row): (DefenceState.model_validate_json(row.state), row.pin) for row in rows}
                self._read_at = now
            return self._rows

    def _is_trickle(self, run_id: str, profile: str) -> bool:
        if draw_of_trickle(run_id) >= self._settings.trickle_share:
            return False
        day = datetime.fromtimestamp(self._ledger.clock(), UTC).date().isoformat()
        _, owner = self._ledger.tenancy(run_id)
        return self._ledger.defences.take_trickle(profile, day, self._settings.trickle_runs_per_day, owner)

    def _profile(self, configuration: str) -> Profile | None:
        """Return the profile of a configuration; None where its bytes no longer exist."""
        config_hash = configuration.partition("+")[0]
        if config_hash not in self._profiles:
            try:
                self._profiles[config_hash] = Profile.from_bytes(self._blobs.named(config_hash))
            except Unavailable:
                raise
            except SluiceError as error:
                log.warning("previous_configuration_gone", config_hash=config_hash, error=str(error))
                return None
        return self._profiles[config_hash]


def key_of(row: DefenceRow) -> Key:
    """Return the defence and the scope of a row."""
    return cast(DefenceName, row.name), Scope(row.profile, row.corpus, row.owner)


def draw_of_trickle(run_id: str) -> float:
    """Return a number in [0, 1) for the run: the first 8 bytes of SHA-256 divided by 2 to the 64th."""
    return int.from_bytes(hashlib.sha256(f"{SALT}{run_id}".encode()).digest()[:8], "big") / 2**64


def measured_on(state: DefenceState) -> str:
    """Return the hash of the very profile that a defence was measured on: a new one begins without."""
    return (state.configuration or "").partition("+")[0]


def _alone(defence: Defence) -> Defence:
    """Return the defence, limited to the local corpus if it needs an earlier configuration, as none is left."""
    if defence.step != "previous_configuration":
        return defence
    why = f"{defence.why}; the configuration before is not kept any more"
    return defence.model_copy(update={"step": "retrieve_only", "why": why})


def read_model_file(version: str, data_dir: Path) -> bytes:
    """Return the file of a version's trained model, after checking its version.

    Raises:
        NotFound: there is none.
        InvalidInput: its file holds no model that this release can score.
        Conflict: the file holds a model of another version.
    """
    file = find_model(version, data_dir) / MODEL
    raw = file.read_bytes()
    if (held := GateModel.from_bytes(raw).version) != version:
        raise Conflict(f"{file} holds model {held}, not {version}")
    return raw


class GateModels:
    """The models among the blobs. Caches the last one that was read: most decisions need the same."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._latest: GateModel | None = None

    def keep(self, raw: bytes) -> GateModel:
        """Store a model's file as a blob and return the model."""
        return self.named(self._blobs.put(raw).sha256)

    def named(self, sha256: str) -> GateModel:
        """Return the model with that hash.

        Raises:
            NotFound: no blob has that hash.
            InvalidInput: its bytes are no model that this release can score.
        """
        if self._latest is None or self._latest.sha256 != sha256:
            self._latest = GateModel.from_bytes(self._blobs.named(sha256))
        return self._latest


ASKED_ARMS = ("shadow", "canary", "promoted")
"""Arms whose decisions use the model. The control and the rest are decided without it."""


class Steered(NamedTuple):
    """Inputs of one decision: the profile, what steered it, the learned model if it takes part, and the policy."""

    profile: Profile
    control: Control
    model: GateModel | None
    policy: PolicyState


@dataclass(frozen=True, slots=True)
class Steering(Step):
    """Reads what steers decisions beside the requested profile: flags, the gate's steps back, a learned model.

    It reads anew for every decision, so what is switched or stopped counts from the next decision on.
    """

    settings: Settings
    policy: PolicyState
    profiles: Mapping[str, Profile]
    former_profiles: Mapping[str, Profile]
    standing_defences: StandingDefences
    flags: FlagReader
    gate_models: GateModels
    ledger: Ledger

    def of(self, run_id: str, corpus: str, request: GateRequested) -> Steered:
        """Return what decides a run of a corpus now. While the flag `gate_weights` is off, former profiles decide."""
        flags_off = self.flags.switched_off(run_id)
        profile = choose_profile(self.profiles, request.profile)
        if "gate_weights" in flags_off:
            profile = self.former_profiles.get(profile.name, profile)
        steps_back = self.standing_defences.of(run_id, profile)
        control = Control(
            observe=self.settings.gate.mode == "observe",
            flags_off=flags_off,
            defences=steps_back.defences,
            is_trickle=steps_back.is_trickle,
            fallback_from=steps_back.fallback_from,
        )
        control, model = self._join_model(control, request, run_id)
        own, policy = policy_of(self.settings.trust, self.ledger, corpus), self.policy
        if is_memory_corpus(corpus):  # memory asks nobody outside
            policy = MEMORY_POLICY
        policy = policy_of_corpus(policy, search=own.search, crawl=own.crawl)
        return Steered(steps_back.profile, control, model, policy)

    def _join_model(self, control: Control, request: GateRequested, run_id: str) -> tuple[Control, GateModel | None]:
        """Return `control` with the part that a model has in this run's decision, and the model if it is used.

        The flag `learned_gate` is off unless somebody has switched it on. A model that cannot be read decides nothing:
        the profile's weights do, as if there were none. Nor does a model decide a run for which an earlier
        configuration does (`Control.fallback_from`): that one had no such model.
        """
        if "learned_gate" in control.flags_off or control.fallback_from is not None:
            return control, None
        rollout = self.ledger.rollouts.active()
        if rollout is None or not self.flags.enabled_now("learned_gate"):
            return control, None
        use = draw(rollout, request, run_id)
        steered = control.model_copy(update={"model": use})
        if use.arm not in ASKED_ARMS:
            return steered, None
        try:
            return steered, self.gate_models.named(use.model_sha256)
        except (NotFound, InvalidInput, Corrupted) as error:
            metrics.GATE_MODEL_FAILURES.inc()
            log.error("gate_model_unreadable", model_version=use.version, error=str(error))
            return steered, None
