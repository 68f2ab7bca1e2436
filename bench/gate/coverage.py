"""Whether the corpus holds the answer: the fit of the coverage weights, and the measures of the profile.

Three cases a question: its passage is in the corpus (covered); the passage was taken out but its neighbours stay
(near); the corpus is on other topics (far). Fitted on one half of the questions of `squad20_dev` and
`scifact_train`, measured on the other half.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.gate.collections import QUESTIONS_A_SET, chunks, load, read
from bench.gate.measures import area_under_curve, logistic, measures
from bench.gate.time import NOW
from contracts.gate import CoverageProbed, GateRequested, Plan, ProbeHit
from gate.decide import choose_plan, compute_score
from gate.probe import content_terms, term_coverage
from gate.profile import Profile
from gate.signals import Signals, read_signals
from gate.words import WORD, stem
from ingest.embed.cache import CachedEmbedder

COVERAGE_FEATURES = ("dissimilarity", "missing_terms", "thin_sources", "flat_ranking", "even_similarity")
TOP_HITS, TEXTS_READ = 8, 5
NEAR_SHARE = 0.35
"""How many near misses are assumed for each far one: most questions that miss, miss the topic."""


@dataclass(frozen=True)
class Case:
    """One question against one state of a corpus."""

    kind: str
    signals: Signals


class Corpus:
    """Chunks with their vectors, documents and stems, searched exhaustively."""

    def __init__(self, documents: Sequence[dict[str, str]], embedder: CachedEmbedder) -> None:
        self.ids = [document["_id"] for document in documents]
        pieces = [(row, piece) for row, document in enumerate(documents) for piece in chunks(document)]
        self.owners = np.array([row for row, _ in pieces])
        self.texts = [text for _, text in pieces]
        self.vectors = embedder.embed(self.texts).vectors
        stems = [{stem(word) for word in WORD.findall(text.casefold())} for text in self.texts]
        self._frequency = Counter(word for found in stems for word in found)

    def probe(self, query: str, vector: NDArray[np.float32], present: NDArray[np.bool_]) -> CoverageProbed:
        """What the query worker would find if the corpus held the documents that are `present`."""
        cosines = np.where(present[self.owners], self.vectors @ vector, -2.0)
        top = np.argsort(-cosines)[:TOP_HITS]
        count = int(present[self.owners].sum())
        texts = [self.texts[row] for row in top[:TEXTS_READ]]
        terms = term_coverage(content_terms(query), lambda term: min(self._frequency[stem(term)], count), count, texts)
        hits = tuple(
            ProbeHit(
                chunk_id=str(row),
                document_id=str(self.owners[row]),
                dense_similarity=round(float(cosines[row]), 6),
                fetched_at=NOW,
            )
            for row in top
        )
        return CoverageProbed(
            generation="bench", chunk_count=count, model_fingerprint="bench", hits=hits, terms=terms, probed_at=NOW
        )


def tune_coverage(data_dir: Path, profile: Profile, embedder: CachedEmbedder) -> None:
    """Fit the coverage weights on half of the questions, and report the profile's own on the other half."""
    fitting: list[list[Case]] = []
    for name in ("squad20_dev", "scifact_train"):
        groups = list(coverage_cases(data_dir / name, profile, embedder))
        report(f"coverage, {name}", groups[1::2], profile)
        fitting += groups[::2]
    print(f"coverage, fitted: {fit_coverage(fitting)}")
    unanswerable = list(unanswerable_cases(data_dir / "squad20_dev", profile, embedder))
    report("coverage, squad20_dev, unanswerable from a passage that is there", unanswerable, profile)


def coverage_cases(folder: Path, profile: Profile, embedder: CachedEmbedder) -> Iterator[list[Case]]:
    """For each question its covered, near and far case. Topics are halved at random (fixed seed) for the far one."""
    random = np.random.default_rng(7)
    questions, relevant, documents = load(folder, random)
    corpus = Corpus(documents, embedder)
    topics = np.array([document_id.rsplit("#", 1)[0] for document_id in corpus.ids])
    vectors = embedder.embed([question["text"] for question in questions]).vectors
    row_of = {document_id: row for row, document_id in enumerate(corpus.ids)}
    for question, vector in zip(questions, vectors, strict=True):
        answers = np.zeros(len(corpus.ids), dtype=bool)
        answers[[row_of[document_id] for document_id in relevant[question["_id"]]]] = True
        others = np.isin(topics, random.permutation(np.unique(topics))[::2])
        states = {"covered": others | answers, "near": (others | np.isin(topics, topics[answers])) & ~answers}
        if "#" in corpus.ids[0]:  # topics are known only where several documents share one
            states["covered"] |= np.isin(topics, topics[answers])
            states["far"] = others & ~np.isin(topics, topics[answers])
        yield [
            Case(kind, signals_of(question["text"], corpus.probe(question["text"], vector, present), profile))
            for kind, present in states.items()
        ]


def unanswerable_cases(folder: Path, profile: Profile, embedder: CachedEmbedder) -> Iterator[list[Case]]:
    """Questions that look answered by a passage and are not: a limit of what the features can see."""
    corpus = Corpus(read(folder / "corpus.jsonl"), embedder)
    questions = read(folder / "unanswerable.jsonl")[:: max(1, 5945 // QUESTIONS_A_SET)]
    vectors = embedder.embed([question["text"] for question in questions]).vectors
    present = np.ones(len(corpus.ids), dtype=bool)
    for question, vector in zip(questions, vectors, strict=True):
        yield [Case("near", signals_of(question["text"], corpus.probe(question["text"], vector, present), profile))]


def signals_of(query: str, probed: CoverageProbed, profile: Profile) -> Signals:
    return read_signals(GateRequested(query=query), probed, profile)


def fit_coverage(groups: Sequence[Sequence[Case]]) -> str:
    """Weights scaled so that dissimilarity and missing_terms sum to 1, and the scores of even and 4:1 odds."""
    cases = [case for group in groups for case in group]
    counts = Counter(case.kind for case in cases)
    shares = {"covered": 1.0, "near": NEAR_SHARE, "far": 1 - NEAR_SHARE}
    importance = np.array([shares[case.kind] / counts[case.kind] * 1_000 for case in cases])
    targets = np.array([case.kind != "covered" for case in cases])
    lines = []
    for names in (COVERAGE_FEATURES[:2], COVERAGE_FEATURES[:3], COVERAGE_FEATURES):
        inputs = np.array([[case.signals[name] for name in names] for case in cases])
        weights = logistic(inputs, targets, ridge=0.5, importance=importance)
        unit = weights[1] + weights[2]
        told = ", ".join(f"{name} {weight / unit:.2f}" for name, weight in zip(names, weights[1:], strict=True))
        area = area_under_curve(targets, inputs @ weights[1:])
        odds = (np.log(4.0) - weights[0]) / unit
        lines.append(f"\n    {told}; search {-weights[0] / unit:.2f}, full_loop {odds:.2f}; area {area:.3f}")
    return "".join(lines)


def report(title: str, groups: Sequence[Sequence[Case]], profile: Profile) -> None:
    """What the profile decides for each kind of case, and how well covered is told from not covered."""
    by_kind = defaultdict(list)
    for case in (case for group in groups for case in group):
        by_kind[case.kind].append(case)
    for kind, cases in by_kind.items():
        plans = Counter(choose_plan(compute_score(case.signals, profile), case.signals, profile) for case in cases)
        shares = ", ".join(f"{plan.value} {plans[plan] / len(cases):.3f}" for plan in Plan if plans[plan])
        print(f"{title}, {kind} ({len(cases)}): {shares}")
    for kind in set(by_kind) - {"covered"}:
        both = [*by_kind["covered"], *by_kind[kind]]
        if by_kind["covered"]:
            targets = np.array([case.kind == kind for case in both])
            scores = np.array([compute_score(case.signals, profile) for case in both])
            print(f"{title}, {kind} told from covered: {measures(targets, scores, profile.thresholds.search)}")
