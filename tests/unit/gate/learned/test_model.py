"""A learned model: what its file may hold, what it scores, and that its decisions can be computed again."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.errors import Conflict, InvalidInput
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested, ProbeSentence
from sluice.contracts.learning.control import Arm, Control, FlagName, ModelUse
from sluice.contracts.plan import Plan
from sluice.gate.decide import decide, explain
from sluice.gate.learned.model import FEATURES, FEATURES_VERSION, Costs, GateModel, Term, Thresholds
from sluice.gate.profile import load_profiles
from sluice.text.words import sigmoid
from tests.unit.gate.samples import NOW, OPEN, RICH, asked, hit, probed, terms

PROFILE = load_profiles()["default"]


def model(**fields: Any) -> GateModel:
    given = {
        "version": "test.1",
        "features_version": FEATURES_VERSION,
        "embedder_fingerprint": "test",
        "bias": 0.0,
        "terms": (Term(feature="best_cosine", mean=0.5, scale=0.1, weight=2.0),),
        "calibration_method": "none",
        "thresholds": Thresholds(search_below=0.5, full_loop_below=0.2),
    } | fields
    return GateModel.from_bytes(GateModel.model_validate(given).to_bytes())


def use(of: GateModel, arm: Arm) -> ModelUse:
    return ModelUse(version=of.version, model_sha256=of.sha256, arm=arm, bucket=0.25, propensity=0.1)


def decided(
    of: GateModel, arm: Arm = "canary", probe: CoverageProbed | None = None, flags_off: tuple[FlagName, ...] = ()
) -> GateDecided:
    control = Control(model=use(of, arm), flags_off=flags_off)
    return decide(asked(), probe or probed((hit(0.6),)), PROFILE, OPEN, RICH, NOW, control, of)


def test_the_file_gives_the_same_model_again_and_is_named_by_its_bytes() -> None:
    one = model(terms=(Term(feature="best_cosine", mean=1 / 3, scale=0.1, weight=-2 / 7),))
    raw = one.to_bytes()
    assert GateModel.from_bytes(raw) == one
    assert GateModel.from_bytes(raw).sha256 == hashlib.sha256(raw).hexdigest()
    assert GateModel.from_bytes(raw + b"\n").sha256 == hashlib.sha256(raw + b"\n").hexdigest()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"features_version": FEATURES_VERSION + 1}, "features_version"),
        ({"terms": [{"feature": "no_such", "mean": 0, "scale": 1, "weight": 1}]}, "no feature 'no_such'"),
        ({"terms": [{"feature": "best_cosine", "mean": 0, "scale": 0, "weight": 1}]}, "scale"),
        ({"calibration_method": "isotonic"}, "needs knots"),
        ({"calibration": [{"score": 0.5, "probability": 0.5}, {"score": 0.4, "probability": 0.6}]}, "scores must rise"),
        ({"thresholds": {"search_below": 0.2, "full_loop_below": 0.5}}, "full_loop_below"),
        ({"weights": [1.0]}, "weights"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_by_the_name_of_the_field(change: dict[str, Any], said: str) -> None:
    fields = json.loads(model().to_bytes()) | change
    with pytest.raises(InvalidInput, match=said):
        GateModel.from_bytes(json.dumps(fields).encode())


def test_a_model_of_former_features_only_computes_its_recorded_decisions_again() -> None:
    term = Term(feature="sentence_terms", mean=0.5, scale=0.1, weight=2.0)
    raw = json.dumps(json.loads(model().to_bytes()) | {"features_version": 1, "terms": [term.model_dump()]}).encode()
    with pytest.raises(InvalidInput, match="features_version"):
        GateModel.from_bytes(raw)
    former = GateModel.from_bytes(raw, may_be_former=True)
    sentence = ProbeSentence(chunk_id="c", term_coverage=0.6)
    made = decided(former, "promoted", probed((hit(0.6),), sentences=(sentence,)))
    assert made.control is not None
    assert made.control.model is not None
    assert made.control.model.probability == round(sigmoid(2.0), 6)


def test_a_probe_without_what_the_model_reads_leaves_the_decision_to_the_score() -> None:
    reads = model(terms=(Term(feature="answerable", mean=0.5, scale=0.1, weight=2.0),))
    for answerable, probability in ((None, None), (0.6, round(sigmoid(2.0), 6))):
        made = decided(reads, "promoted", probed((hit(0.6),), answerable=answerable))
        assert made.control is not None
        assert made.control.model is not None
        assert made.control.model.probability == probability


def test_bytes_that_are_no_json_are_refused() -> None:
    with pytest.raises(InvalidInput, match="model"):
        GateModel.from_bytes(b"\x80pickle")


def test_a_missing_feature_is_an_error_and_no_zero() -> None:
    with pytest.raises(InvalidInput, match="best_cosine"):
        model().probability({"sentence_terms": 0.5})


def test_the_probability_is_the_logistic_of_the_standardised_features() -> None:
    assert model().probability(dict.fromkeys(FEATURES, 0.6)) == round(sigmoid(2.0), 6)
    assert model(bias=-2.0).probability(dict.fromkeys(FEATURES, 0.6)) == 0.5


def test_a_platt_calibration_bends_the_log_odds() -> None:
    bent = model(calibration_method="platt", platt_slope=0.5, platt_intercept=0.1)
    assert bent.probability(dict.fromkeys(FEATURES, 0.6)) == pytest.approx(sigmoid(1.1), abs=1e-6)
    assert 0 <= bent.probability(dict.fromkeys(FEATURES, -1e9)) <= bent.probability(dict.fromkeys(FEATURES, 1e9)) <= 1


@pytest.mark.parametrize(
    ("arm", "decides"), [("canary", 1), ("promoted", 1), ("shadow", 0), ("control", 0), ("default", 0)]
)
def test_the_model_decides_in_its_arms_and_only_speaks_in_the_others(arm: Arm, decides: int) -> None:
    doubting = model(bias=-3.5)  # gives a covered question .18
    made = decided(doubting, arm)
    assert made.scored_plan is Plan.RETRIEVE
    assert made.control is not None
    assert made.control.model is not None
    assert made.control.model.plan is Plan.FULL_LOOP
    assert made.control.model.probability == pytest.approx(0.182426)
    assert made.plan is (Plan.FULL_LOOP if decides else Plan.RETRIEVE)


def test_the_flag_takes_the_decision_from_the_model_and_keeps_its_words() -> None:
    made = decided(model(bias=-3.5), "promoted", flags_off=("learned_gate",))
    assert made.plan is Plan.RETRIEVE
    assert made.control is not None
    assert made.control.model is not None
    assert made.control.model.plan is Plan.FULL_LOOP


def test_vectors_of_another_model_or_none_at_all_leave_the_decision_to_the_score() -> None:
    for probe in (probed((hit(0.6),), model_fingerprint="other"), probed((hit(None),), embedder_down="out of reach")):
        made = decided(model(bias=-3.5), "promoted", probe)
        assert made.plan is decide(asked(), probe, PROFILE, OPEN, RICH, NOW).plan
        assert made.control is not None
        assert made.control.model is not None
        assert (made.control.model.probability, made.control.model.plan) == (None, None)
        assert explain(asked(), probe, made, PROFILE) == made


def test_an_empty_corpus_answers_nothing() -> None:
    assert decided(model(bias=9.0), "promoted", probed()).plan is Plan.FULL_LOOP


def test_a_model_that_the_run_does_not_name_is_refused() -> None:
    control = Control(model=use(model(), "canary"))
    with pytest.raises(Conflict, match="the run's model"):
        decide(asked(), probed((hit(),)), PROFILE, OPEN, RICH, NOW, control, model(bias=1.0))


def test_costs_that_are_equal_search_below_one_half() -> None:
    assert Thresholds.of_costs(Costs()) == Thresholds(search_below=0.5, full_loop_below=0.2)


def test_a_dear_miss_goes_outside_sooner_and_a_dear_search_later() -> None:
    assert Thresholds.of_costs(Costs(outside=1, miss=9)).search_below == 0.9
    assert Thresholds.of_costs(Costs(outside=9, full_loop=9, miss=1)).search_below == 0.1


@given(st.data())
def test_a_recorded_decision_is_computed_again_bit_for_bit(data: st.DataObject) -> None:
    """A thousand of them in tests/unit/gate/learned/test_replay.py; here hypothesis looks for the odd one."""
    cosines = data.draw(st.lists(st.floats(-1, 1), min_size=1, max_size=10))
    probe = probed(
        tuple(hit(round(one, 6), document=f"d{place}") for place, one in enumerate(cosines)),
        terms=terms(data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))),
    )
    one = model(bias=data.draw(st.floats(-3, 3)), terms=(Term(feature="best_cosine", mean=0.4, scale=0.3, weight=1.7),))
    made = decided(one, data.draw(st.sampled_from(["canary", "shadow"])), probe)
    request, again_probe, again_decided = (
        kind.model_validate_json(body.model_dump_json())
        for kind, body in ((GateRequested, asked()), (CoverageProbed, probe), (GateDecided, made))
    )
    kept = GateModel.from_bytes(one.to_bytes())
    again = explain(request, again_probe, again_decided, PROFILE, kept)  # type: ignore[arg-type]
    assert again.model_dump_json() == made.model_dump_json()


def test_a_decision_of_a_model_is_not_explained_without_it() -> None:
    made = decided(model())
    with pytest.raises(Conflict, match="without it"):
        explain(asked(), probed((hit(0.6),)), made, PROFILE)
