"""Whether the corpus holds the answer: the fit of the coverage weights, and the measures of the profile.

Three cases a question: its passage is in the corpus (covered); the passage was taken out but its neighbours stay
(near); the corpus is on other topics (far), which for collections without topics are questions of another collection.
Fitted on the questions of one half of SQuAD's articles; measured on the other half, and on whole collections that the
fit never sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from bench.gate.corpus import Corpus, Question, read_collection
from bench.gate.measures import Floats, area_under_curve, calibration_error, logistic, measures, reliability
from contracts.gate import GateRequested, Plan
from gate.decide import choose_plan, compute_score, coverage_probability, coverage_score
from gate.profile import Profile
from gate.signals import Signals, read_signals
from ingest.embed.cache import CachedEmbedder

FITTED_ON = "squad20_dev"
COLLECTIONS = {
    FITTED_ON: (1_000, 100_000),
    "scifact_train": (250, 600),
    "cosqa_dev": (300, 100_000),
    "npl": (93, 100_000),
    "cacm": (52, 100_000),
    "climate_fever_sent": (250, 100_000),
}
"""Questions drawn, and documents that are read besides those that answer them."""
FEATURES = ("sentence_dissimilarity", "sentence_missing_terms")
OTHERS = ("dissimilarity", "missing_terms", "thin_sources", "flat_ranking", "even_similarity")
"""Measured beside them, to see what each would add."""
SHARES = {"covered": 1.0, "near": 0.35, "far": 0.65}
"""Assumed of the questions that a corpus meets: half are covered, and most that miss, miss the topic."""


@dataclass(frozen=True)
class Case:
    """One question against one state of a corpus."""

    kind: str
    topic: str
    signals: Signals


def tune_coverage(data_dir: Path, profile: Profile, embedder: CachedEmbedder) -> None:
    """Fit the coverage weights on half of the articles, and report the profile's own on what the fit did not see."""
    strangers: list[Question] = []
    unseen: list[Case] = []
    for name, (question_count, background) in COLLECTIONS.items():
        corpus, questions = read_collection(data_dir / name, question_count, background, embedder)
        cases = list(coverage_cases(corpus, questions, strangers, profile))
        if name == FITTED_ON:
            strangers = questions
            print(fit_coverage([case for case in cases if is_fitted_on(case.topic)], profile))
            cases = [case for case in cases if not is_fitted_on(case.topic)]
            unseen = cases
        report(f"coverage, {name}", cases, profile)
        report_probability(f"coverage, {name}", cases, profile)
    print("\n".join(reliability(*predictions(unseen, profile))))


def coverage_cases(
    corpus: Corpus, questions: Sequence[Question], strangers: Sequence[Question], profile: Profile
) -> Iterator[Case]:
    """For each question its covered, near and far case. Topics are halved at random (fixed seed) for each."""
    random = np.random.default_rng(7)
    topics = np.unique(corpus.topics)
    for row, question in enumerate(questions):
        answers = corpus.owned_by(question.answers)
        same_topic = np.isin(corpus.topics, corpus.topics[answers]) if corpus.has_topics else answers
        others = np.isin(corpus.topics, random.permutation(topics)[::2])
        states = {
            "covered": (question, others | same_topic),
            "near": (question, (others | same_topic) & ~answers),
            "far": (question, others & ~same_topic),
        }
        if not corpus.has_topics:
            states["far"] = (strangers[row], others)
        for kind, (asked, present) in states.items():
            probed = corpus.probe(asked, present)
            signals = read_signals(GateRequested(query=asked.text), probed, profile)
            yield Case(kind, str(corpus.topics[answers][0]), signals)


def is_fitted_on(topic: str) -> bool:
    """One half of the articles, by a hash of their names."""
    return sha256(topic.encode()).digest()[0] % 2 == 0


def fit_coverage(cases: Sequence[Case], profile: Profile) -> str:
    """Weights scaled so that the two features' sum to 1, the scores of even and 4:1 odds, and the calibration."""
    targets, importance = np.array([case.kind != "covered" for case in cases]), weigh(cases)
    lines = [f"coverage, fitted on {len(cases)} cases:"]
    for names in (FEATURES, (*FEATURES, "thin_sources"), OTHERS[:2], (*FEATURES, *OTHERS)):
        inputs = np.array([[case.signals[name] for name in names] for case in cases])
        weights = logistic(inputs, targets, ridge=0.5, importance=importance)
        unit = weights[1] + weights[2]
        told = ", ".join(f"{name} {weight / unit:.2f}" for name, weight in zip(names, weights[1:], strict=True))
        odds = (np.log(4.0) - weights[0]) / unit
        area = area_under_curve(targets, inputs @ weights[1:])
        lines.append(f"    {told}; search {-weights[0] / unit:.2f}, full_loop {odds:.2f}; area {area:.3f}")
    scores = np.array([[coverage_score(case.signals, profile)] for case in cases])
    bias, slope = logistic(scores, ~targets, ridge=1e-3, importance=importance)
    lines.append(f"    calibration of the profile's score: bias {bias:.2f}, steepness {-slope:.2f}")
    covered = np.sort(scores[~targets, 0])
    lines.append(
        f"    92 and 94 of 100 covered score below {np.quantile(covered, 0.92):.3f}, {np.quantile(covered, 0.94):.3f}"
    )
    return "\n".join(lines)


def report(title: str, cases: Sequence[Case], profile: Profile) -> None:
    """What the profile decides for each kind of case, and how well covered is told from not covered."""
    by_kind = group(cases)
    for kind, found in by_kind.items():
        plans = Counter(choose_plan(compute_score(case.signals, profile), case.signals, profile) for case in found)
        shares = ", ".join(f"{plan.value} {plans[plan] / len(found):.3f}" for plan in Plan if plans[plan])
        print(f"{title}, {kind} ({len(found)}): {shares}")
    for kind in ("far", "near"):
        both = [*by_kind["covered"], *by_kind[kind]]
        targets = np.array([case.kind == kind for case in both])
        scores = np.array([coverage_score(case.signals, profile) for case in both])
        print(f"{title}, {kind} told from covered: {measures(targets, scores, profile.thresholds.search)}")


def report_probability(title: str, cases: Sequence[Case], profile: Profile) -> None:
    """How far the probability that the corpus answers is from the share that it does answer."""
    if profile.calibration is not None:
        print(f"{title}, probability: expected calibration error {calibration_error(*predictions(cases, profile)):.3f}")


def predictions(cases: Sequence[Case], profile: Profile) -> tuple[Floats, Floats, Floats]:
    """Each case's probability that the corpus answers, whether it does (1 or 0), and its weight."""
    found = np.array([coverage_probability(case.signals, profile) or 0.0 for case in cases])
    return found, np.array([float(case.kind == "covered") for case in cases]), weigh(cases)


def weigh(cases: Sequence[Case]) -> Floats:
    """The weight of each case, so that the kinds have their assumed shares."""
    counts = Counter(case.kind for case in cases)
    return np.array([SHARES[case.kind] / counts[case.kind] * 1_000 for case in cases])


def group(cases: Sequence[Case]) -> Mapping[str, list[Case]]:
    return {kind: [case for case in cases if case.kind == kind] for kind in SHARES}
