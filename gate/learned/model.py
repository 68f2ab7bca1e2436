"""A learned model of the gate: a file of numbers, and the probability computed from them.

    z = bias + sum of weight x (feature - mean) / scale         `math.fsum`, in the order of the file
    score = 1 / (1 + exp(-z))
    probability = the calibration's line between its knots       as `numpy.interp`, clipped outside

    best_cosine     the nearest hit, or its sentence where that was compared and is nearer
    answerable      the probability that the corpus answers, as the answer's confidence would tell it
    agreement       correlation of the hits' cosines with their BM25 scores: whether both retrievers rank hits alike
    lexical_lead    distance of the best BM25 score above the mean of the other hits'
    sentence_terms  in place of `answerable` in version 1: share of the question's idf mass in one sentence, the one
                    before it and its headings

The features are read from the recorded events of a decision and rounded to six places, so that the same events give the
same bytes in every process. A change of the features is a new `FEATURES_VERSION`: a model of a former one only computes
its recorded decisions again. docs/decisions/0023-learned-gate.md reports the gain of each, and features left out.

The file is JSON, is fitted by `sluice gate train`, and is named by the SHA-256 of its bytes: a decision records the
name, the bytes are kept among the blobs, so that the decision can be computed again.

The plan from the probability: the profile's rules on talk and on a sufficient session decide as without a model. The
rest of the profile's score moves the probability: age lowers it by its share, and relief raises it. A score equal to
the profile's `search` corresponds to one half here:

    usable = probability x (1 - (staleness and newer_year in the score) / (2 x search))
                         + (relief in the score) / (2 x search)                              within [0, 1]
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, FiniteFloat, PrivateAttr, ValidationError, model_validator

from sluice.contracts.base import Sha256, Value
from sluice.contracts.errors import InvalidInput, first_problem
from sluice.contracts.gate import CoverageProbed, ProbeHit
from sluice.contracts.learning.control import ModelVersion
from sluice.contracts.plan import Plan
from sluice.gate.probe import compute_coverage
from sluice.gate.profile import Profile
from sluice.gate.signals import Signals, plan_without_search
from sluice.text.words import sigmoid

DECIMALS = 6
FEATURES_VERSION = 2
FEATURES_OF = {
    1: ("best_cosine", "sentence_terms", "agreement", "lexical_lead"),
    2: ("best_cosine", "answerable", "agreement", "lexical_lead"),
}
FEATURES = FEATURES_OF[FEATURES_VERSION]
HITS_THAT_CORRELATE = 3
"""Two hits always lie on a line."""
LEAST_SPREAD = 1e-9
"""Scores that differ by less than rounding have no correlation."""


def read_features(probed: CoverageProbed, names: Sequence[str] = FEATURES) -> Mapping[str, float]:
    """Return the values of the features, in their order: 0 without measurements (no vector, no hit), and no
    `answerable` where the probe has none."""
    cosines = [hit.dense_similarity for hit in probed.hits if hit.dense_similarity is not None]
    of_sentences = [one.similarity for one in probed.sentences if one.similarity is not None]
    passage = compute_coverage(probed.terms) if probed.terms else 1.0
    lexical = sorted((hit.lexical_score or 0.0 for hit in probed.hits), reverse=True)
    found = {
        "best_cosine": max([*cosines, *of_sentences], default=0.0),
        "answerable": probed.answerable,
        "sentence_terms": max((one.term_coverage for one in probed.sentences), default=passage),
        "agreement": _agreement(probed.hits),
        "lexical_lead": lexical[0] - _mean(lexical[1:]) if len(lexical) > 1 else sum(lexical),
    }
    return {name: round(value, DECIMALS) for name in names if (value := found[name]) is not None}


def _agreement(hits: Sequence[ProbeHit]) -> float:
    """Return Pearson's correlation over the hits that have a cosine; 0 if there are too few, or one does not vary."""
    pairs = [(hit.dense_similarity, hit.lexical_score or 0.0) for hit in hits if hit.dense_similarity is not None]
    if len(pairs) < HITS_THAT_CORRELATE:
        return 0.0
    near, words = [one for one, _ in pairs], [one for _, one in pairs]
    spread = _deviation(near) * _deviation(words)
    if spread < LEAST_SPREAD:
        return 0.0
    mean_near, mean_words = _mean(near), _mean(words)
    return _mean([(one - mean_near) * (other - mean_words) for one, other in pairs]) / spread


def _deviation(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.sqrt(_mean([(value - mean) ** 2 for value in values]))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
Positive = Annotated[FiniteFloat, Field(gt=0)]


class Term(Value):
    """One feature of the model: its mean and scale in the fit, and the weight of its standardised value."""

    feature: str
    mean: FiniteFloat
    scale: Positive
    weight: FiniteFloat


class Knot(Value):
    """A point of the calibration: the model's score, and the share of such questions that the corpus answers."""

    score: FiniteFloat
    probability: Share


class Costs(Value):
    """Costs of errors, in a unit of the operator's choice: a search in vain, a full loop in vain, a missed answer."""

    outside: Positive = 1.0
    full_loop: Positive = 4.0
    miss: Positive = 1.0


class Thresholds(Value):
    """Probabilities of an answer in the corpus below which a run searches, or also crawls."""

    search_below: Share
    full_loop_below: Share

    @model_validator(mode="after")
    def _ordered(self) -> Thresholds:
        if self.full_loop_below > self.search_below:
            raise ValueError("full_loop_below must not be above search_below")
        return self

    @classmethod
    def of_costs(cls, costs: Costs) -> Thresholds:
        """Return the probabilities at which going outside costs as much as staying.

        Going costs `outside` if the corpus answers, staying costs `miss` if it does not; so going is cheaper where P x
        outside < (1 - P) x miss, that is where P < miss / (outside + miss).
        """
        below = [costs.miss / (cost + costs.miss) for cost in (costs.outside, max(costs.outside, costs.full_loop))]
        return cls(search_below=round(below[0], DECIMALS), full_loop_below=round(below[1], DECIMALS))


_TRAIN_ANEW = f"this release measures version {FEATURES_VERSION}; train a model with this release (sluice gate train)"


class GateModel(Value):
    """The content of a model's file. `embedder_fingerprint` names the embedder of its cosines."""

    format: Literal[1] = 1
    version: ModelVersion
    features_version: int
    embedder_fingerprint: str
    bias: FiniteFloat
    terms: Annotated[tuple[Term, ...], Field(min_length=1)]
    calibration_method: Literal["isotonic", "platt", "none"]
    calibration: tuple[Knot, ...] = ()
    platt_slope: FiniteFloat = 1.0
    platt_intercept: FiniteFloat = 0.0
    costs: Costs = Costs()
    thresholds: Thresholds

    _sha256: Sha256 | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _fits_these_features(self) -> GateModel:
        if self.features_version not in FEATURES_OF:
            raise ValueError(f"features_version {self.features_version}: {_TRAIN_ANEW}")
        unknown = sorted({term.feature for term in self.terms} - set(self.features))
        if unknown:
            raise ValueError(f"terms: no feature {unknown[0]!r}; there are {', '.join(self.features)}")
        scores = [knot.score for knot in self.calibration]
        chances = [knot.probability for knot in self.calibration]
        if self.calibration_method == "isotonic" and len(scores) < 1:
            raise ValueError("calibration: an isotonic one needs knots")
        if scores != sorted(set(scores)) or chances != sorted(chances):
            raise ValueError("calibration: the scores must rise, and the probabilities must not fall")
        return self

    @classmethod
    def from_bytes(cls, raw: bytes, *, may_be_former: bool = False) -> GateModel:
        """Return the model whose file holds `raw`; `may_be_former`: of features that only recorded probes have, too.
        Raises `InvalidInput` if the bytes are not a model, or a model of other features than this release measures."""
        try:
            model = cls.model_validate_json(raw, context=hashlib.sha256(raw).hexdigest())
        except ValidationError as error:
            raise InvalidInput(*first_problem(error, ["model"])) from error
        if model.features_version != FEATURES_VERSION and not may_be_former:
            raise InvalidInput("model.features_version", f"{model.features_version}: {_TRAIN_ANEW}")
        return model

    def model_post_init(self, sha256: Sha256 | None) -> None:
        """Store the name of the file that the model was read from."""
        self._sha256 = sha256

    def to_bytes(self) -> bytes:
        """Return the model's file: indented JSON, whose floats survive a round trip."""
        return (json.dumps(self.model_dump(mode="json"), indent=1) + "\n").encode()

    @property
    def features(self) -> tuple[str, ...]:
        """Return the features of its version."""
        return FEATURES_OF[self.features_version]

    @property
    def sha256(self) -> Sha256:
        """Return the name of its file: hex SHA-256 of the bytes that it was read from, or would be written as."""
        return self._sha256 or hashlib.sha256(self.to_bytes()).hexdigest()

    def score(self, features: Mapping[str, float]) -> float:
        """Return the raw score in (0, 1), before calibration. Raises `InvalidInput` if a feature that the model weighs
        is missing or not finite."""
        products = [self.bias]
        for term in self.terms:
            value = features.get(term.feature, math.nan)
            if not math.isfinite(value):
                raise InvalidInput(f"features.{term.feature}", "missing or not a finite number")
            products.append(term.weight * ((value - term.mean) / term.scale))
        return sigmoid(math.fsum(products))

    def probability(self, features: Mapping[str, float]) -> float:
        """Return the calibrated probability that the corpus answers, to six places. Raises as `score` does."""
        score = self.score(features)
        match self.calibration_method:
            case "isotonic":
                knots = self.calibration
                calibrated = float(np.interp(score, [one.score for one in knots], [one.probability for one in knots]))
            case "platt":
                log_odds = math.log(score / (1 - score)) if 0 < score < 1 else math.copysign(700.0, score - 0.5)
                calibrated = sigmoid(self.platt_slope * log_odds + self.platt_intercept)
            case "none":
                calibrated = score
        return round(calibrated, DECIMALS)


LEAST_SEARCH = 0.01
"""Lower bound for a profile's `search`: a profile with a lower one always searches."""
_AGE = ("staleness", "newer_year")
_RELIEF = ("self_contained", "session_sufficiency")


def choose_learned_plan(probability: float, thresholds: Thresholds, signals: Signals, profile: Profile) -> Plan:
    """Return the plan by `probability` and the other signals, before a request's plan, rules and ceilings apply."""
    if (plan := plan_without_search(signals, profile)) is not None:
        return plan
    usable = usable_probability(probability, signals, profile)
    if usable < thresholds.full_loop_below:
        return Plan.FULL_LOOP
    return Plan.SEARCH if usable < thresholds.search_below else Plan.RETRIEVE


def usable_probability(probability: float, signals: Signals, profile: Profile) -> float:
    """Return the probability that the corpus's answer is usable: recent enough, or not needed; to six places."""
    whole = 2 * max(LEAST_SEARCH, profile.thresholds.search)
    age = math.fsum(getattr(profile.weights, name) * signals[name] for name in _AGE) / whole
    relief = -math.fsum(getattr(profile.weights, name) * signals[name] for name in _RELIEF) / whole
    return round(min(1.0, max(0.0, probability * max(0.0, 1 - age) + relief)), DECIMALS)
