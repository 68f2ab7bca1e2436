"""Recorded decisions with every arm of a rollout, computed again from what was recorded: bit for bit."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import numpy as np
import pytest

from sluice.contracts.event import Event, decode, encode
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.contracts.learning.control import Cause, Control
from sluice.gate.decide import decide, explain, needs_model
from sluice.gate.learned.model import GateModel
from sluice.gate.learned.rollout import advance, begin, draw
from sluice.gate.profile import Profile, load_profiles
from tests.support.gate_model import small_model
from tests.unit.gate.samples import NOW, OPEN, RICH, asked, hit, probed, terms


@pytest.mark.parametrize("decisions", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_recorded_decisions_are_computed_again_bit_for_bit_with_their_arms(decisions: int) -> None:
    generator = np.random.default_rng(17)
    profile = load_profiles()["default"]
    model = GateModel.from_bytes(small_model("m1", "test", bias=0.3).to_bytes())
    shadow = begin(None, "m1", model.sha256, Cause(at=NOW, operator="ann"))
    canary = begin(None, "m1", model.sha256, Cause(at=NOW, operator="ann"), stages=(0.1, 0.5, 1.0))
    rollouts = (
        shadow,
        canary,
        second := advance(canary, Cause(at=NOW, operator="ann")),
        advance(second, Cause(at=NOW, operator="ann")),
    )
    arms: Counter[str] = Counter()
    plans: Counter[bool] = Counter()
    for number in range(decisions):
        request = asked(session_id=f"s{number}")
        hits = tuple(
            hit(float(similarity), age=timedelta(days=float(generator.uniform(0, 2_000))), document=f"d{at}")
            for at, similarity in enumerate(generator.uniform(-0.2, 1.0, int(generator.integers(1, 6))))
        )
        probe = probed(hits, terms=terms(int(generator.integers(0, 4)), int(generator.integers(0, 4))))
        use = draw(rollouts[number % 4], request, f"run_{number}")
        asked_model = model if use.arm in ("shadow", "canary", "promoted") else None
        decided = decide(request, probe, profile, OPEN, RICH, NOW, Control(model=use), asked_model)
        request_kept, probe_kept, kept = (_recorded(body) for body in (request, probe, decided))
        assert isinstance(request_kept, GateRequested)
        assert isinstance(probe_kept, CoverageProbed)
        assert isinstance(kept, GateDecided)
        by_name = GateModel.from_bytes(model.to_bytes()) if needs_model(kept) == model.sha256 else None
        again = explain(request_kept, probe_kept, kept, Profile.from_bytes(profile.canonical_bytes()), by_name)
        assert again.model_dump_json() == decided.model_dump_json()
        arms[use.arm] += 1
        plans[decided.plan == decided.scored_plan] += 1
    assert set(arms) == {"shadow", "canary", "control", "default", "promoted"}
    assert min(plans.values()) > decisions / 10


def _recorded(body: GateRequested | CoverageProbed | GateDecided) -> object:
    """The body as an event of the ledger gives it back."""
    return decode(encode(Event.of(body, run_id="run_1", corpus="docs", occurred_at=NOW))).body
