"""Whether the corpus holds the answer: the fit of the coverage weights, and the measures of the profile.

Three cases a question: its passage is in the corpus (covered); the passage was taken out but its neighbours stay
(near); the corpus is on other topics (far), which for collections without topics are questions of another collection.
The weights are fitted on the questions of one half of SQuAD's articles, and measured on the other half and on whole
collections that the fit never sees. The calibration of each collection is fitted on the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from bench.confidence.cases import Viewer
from bench.confidence.fit import log_odds_of_answers
from bench.gate.corpus import Present, Question, read_collection, read_questions
from bench.gate.measures import Floats, area_under_curve, calibration_error, f1_score, logistic, reliability
from sluice.contracts.gate import CoverageProbed, GateRequested
from sluice.contracts.plan import Plan
from sluice.gate.decide import choose_plan, compute_score, coverage_score, depends_on_sentences
from sluice.gate.profile import Profile
from sluice.gate.signals import Signals, read_signals
from sluice.ingest.embed.cache import CachedEmbedder
from sluice.ingest.embed.minilm import MiniLM
from sluice.trust.confidence import BY_MEANING, BY_TOKENS, probability

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
UNANSWERABLE = 400
"""Questions written to look answered by a paragraph that does not answer them: a limit of what the features see."""
ONE_TOPIC = "climate_fever_sent"
"""Every document is about the climate: nothing is far from anything, so the calibration is not fitted on it."""
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
    question: str
    probed: CoverageProbed

    def signals(self, profile: Profile) -> Signals:
        """As the product measures them: a sentence that cannot change the plan is not compared."""
        request = GateRequested(query=self.question)
        unmeasured = tuple(one.model_copy(update={"similarity": None}) for one in self.probed.sentences)
        words_alone = self.probed.model_copy(update={"sentences": unmeasured})
        compared = depends_on_sentences(request, words_alone, profile)
        return read_signals(request, self.probed if compared else words_alone, profile)

    def all_signals(self, profile: Profile) -> Signals:
        """With each sentence compared, as a fit of weights and thresholds needs them."""
        return read_signals(GateRequested(query=self.question), self.probed, profile)


def tune_coverage(data_dir: Path, profiles: Sequence[Profile], embedder: CachedEmbedder) -> None:
    """Fit weights and calibration for the last of `profiles`, and report what each decides on what no fit saw."""
    profile, strangers, unanswerable = profiles[-1], list[Question](), list[Case]()
    cases: dict[str, list[Case]] = {}
    model = embedder.model_of(embedder.fingerprint)
    assert isinstance(model, MiniLM)
    for name, (question_count, background) in COLLECTIONS.items():
        corpus, questions = read_collection(data_dir / name, question_count, background, embedder)
        strangers, viewer = strangers or questions, Viewer(name, corpus, model)
        cases[name] = list(coverage_cases(viewer, questions, strangers))
        if name == FITTED_ON:
            posed = read_questions(data_dir / name / "unanswerable.jsonl", UNANSWERABLE, embedder)
            everything = np.ones(len(corpus.texts), dtype=bool)
            unanswerable = [Case("near", "", one.text, _probe(viewer, one, everything)) for one in posed]
    print(fit_coverage([case for case in cases[FITTED_ON] if is_fitted_on(case.topic)], profile))
    unseen = cases | {FITTED_ON: [case for case in cases[FITTED_ON] if not is_fitted_on(case.topic)]}
    print("\n".join(table_of_plans(unseen | {"unanswerable from a passage that is there": unanswerable}, profile)))
    print("\n".join(table_of_measures(unseen, profiles)))
    print("\n".join(table_of_probabilities(cases, profile)))


def coverage_cases(viewer: Viewer, questions: Sequence[Question], strangers: Sequence[Question]) -> Iterator[Case]:
    """For each question its covered, near and far case. Topics are halved at random (fixed seed) for each."""
    corpus, random = viewer.corpus, np.random.default_rng(7)
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
            yield Case(kind, str(corpus.topics[answers][0]), asked.text, _probe(viewer, asked, present))


def _probe(viewer: Viewer, asked: Question, present: Present) -> CoverageProbed:
    """What the query worker would find, with the confidence of the answer that it would give."""
    seen = viewer.see("", "", 0, asked, present)
    answerable = probability(float(log_odds_of_answers([seen], BY_MEANING, BY_TOKENS)[0])) if len(seen.figures) else 0.0
    return viewer.corpus.probe(asked, present).model_copy(update={"answerable": answerable})


def is_fitted_on(topic: str) -> bool:
    """One half of the articles, by a hash of their names."""
    return sha256(topic.encode()).digest()[0] % 2 == 0


def fit_coverage(cases: Sequence[Case], profile: Profile) -> str:
    """Weights scaled so that the first two sum to 1, the scores of even and 4:1 odds, and those of covered cases."""
    targets, importance = np.array([case.kind != "covered" for case in cases]), weigh(cases)
    signals = [case.all_signals(profile) for case in cases]
    lines = [f"coverage, fitted on {len(cases)} cases:"]
    for names in (FEATURES, (*FEATURES, "thin_sources"), OTHERS[:2], (*FEATURES, *OTHERS)):
        inputs = np.array([[one[name] for name in names] for one in signals])
        weights = logistic(inputs, targets, ridge=0.5, importance=importance)
        unit = weights[1] + weights[2]
        told = ", ".join(f"{name} {weight / unit:.2f}" for name, weight in zip(names, weights[1:], strict=True))
        odds = (np.log(4.0) - weights[0]) / unit
        area = area_under_curve(targets, inputs @ weights[1:])
        lines.append(f"    {told}; even odds {-weights[0] / unit:.2f}, 4:1 {odds:.2f}; area {area:.3f}")
    covered = np.array([coverage_score(one, profile) for one in signals])[~targets]
    share_92, share_94 = np.quantile(covered, [0.92, 0.94])
    lines.append(f"    92 and 94 of 100 covered score below {share_92:.3f} and {share_94:.3f}")
    return "\n".join(lines)


def table_of_plans(cases: Mapping[str, Sequence[Case]], profile: Profile) -> Iterator[str]:
    """What the profile decides for each kind of case: shares of retrieve, search and full_loop."""
    yield f"\n| {profile.name}.v{profile.version} | " + " | ".join(SHARES) + " |\n|---|---|---|---|"
    for name, found in cases.items():
        cells = []
        for kind in SHARES:
            signals = [case.signals(profile) for case in found if case.kind == kind]
            if not signals:
                cells.append("")
                continue
            plans = Counter(choose_plan(compute_score(one, profile), one, profile) for one in signals)
            cells.append(" · ".join(f"{plans[plan] / len(signals):.3f}" for plan in list(Plan)[1:]))
        yield f"| {name} | " + " | ".join(cells) + " |"


def table_of_measures(cases: Mapping[str, Sequence[Case]], profiles: Sequence[Profile]) -> Iterator[str]:
    """How well each profile's coverage score tells covered from not covered, at its own threshold."""
    yield "\n| | profile | covered: retrieve | near: F1 | area | far: F1 | area |\n|---|---|---|---|---|---|---|"
    for name, found in cases.items():
        for profile in profiles:
            scores, kinds = scores_of(found, profile), np.array([case.kind for case in found])
            threshold = profile.thresholds.search
            cells = [f"{float((scores[kinds == 'covered'] < threshold).mean()):.3f}"]
            for kind in ("near", "far"):
                chosen = np.isin(kinds, ["covered", kind])
                targets = kinds[chosen] == kind
                cells.append(f"{f1_score(targets, scores[chosen], threshold):.3f}")
                cells.append(f"{area_under_curve(targets, scores[chosen]):.3f}")
            yield f"| {name} ({len(found) // 3}) | {profile.name}.v{profile.version} | " + " | ".join(cells) + " |"


def table_of_probabilities(cases: Mapping[str, Sequence[Case]], profile: Profile) -> Iterator[str]:
    """Each collection by a calibration that is fitted on the others: its expected error, and all together by tenths."""
    fitting = [name for name in cases if name != ONE_TOPIC]
    bias, slope = calibrate([cases[name] for name in fitting], profile)
    yield f"\ncalibration fitted on all but {ONE_TOPIC}: bias {bias:.2f}, steepness {-slope:.2f}"
    yield "\n| left out | expected calibration error | by its own calibration |\n|---|---|---|"
    pooled: list[tuple[Floats, Floats, Floats]] = []
    for name, found in cases.items():
        left_out = calibrate([cases[other] for other in fitting if other != name], profile)
        happened, weights = np.array([float(case.kind == "covered") for case in found]), weigh(found)
        by_others, by_itself = (
            predict(found, profile, bias_and_slope) for bias_and_slope in (left_out, calibrate([found], profile))
        )
        errors = (calibration_error(predicted, happened, weights) for predicted in (by_others, by_itself))
        yield f"| {name} | " + " | ".join(f"{error:.3f}" for error in errors) + " |"
        if name in fitting:
            pooled.append((by_others, happened, weights / weights.sum()))
    together = tuple(np.concatenate(parts) for parts in zip(*pooled, strict=True))
    yield f"| all but {ONE_TOPIC}, each left out | {calibration_error(*together):.3f} | |\n"
    yield from reliability(*together)


def calibrate(collections: Sequence[Sequence[Case]], profile: Profile) -> tuple[float, float]:
    """Bias and slope of the log-odds that the corpus answers, by the coverage score; collections weigh the same."""
    scores = np.concatenate([scores_of(cases, profile) for cases in collections])
    targets = np.array([case.kind == "covered" for cases in collections for case in cases])
    importance = np.concatenate([weigh(cases) / weigh(cases).sum() for cases in collections]) * 1_000
    bias, slope = logistic(scores[:, None], targets, ridge=1e-3, importance=importance)
    return float(bias), float(slope)


def predict(cases: Sequence[Case], profile: Profile, bias_and_slope: tuple[float, float]) -> Floats:
    bias, slope = bias_and_slope
    predicted: Floats = 1 / (1 + np.exp(-(bias + slope * scores_of(cases, profile))))
    return predicted


def scores_of(cases: Sequence[Case], profile: Profile) -> Floats:
    return np.array([coverage_score(case.signals(profile), profile) for case in cases])


def weigh(cases: Sequence[Case]) -> Floats:
    """The weight of each case, so that the kinds have their assumed shares."""
    counts = Counter(case.kind for case in cases)
    return np.array([SHARES[case.kind] / counts[case.kind] * 1_000 for case in cases])
