"""Fits the gate's numbers on public questions, and measures the profile that comes with the package.

    python bench/gate_tuning.py DATA_DIR [--work DIR] [--profile default]

Two things are learnt, both by logistic regression with a ridge (a handful of features each):

* time: whether the answer to a question changes, from the words found and the margin between the nearest
  time-bound and the nearest other intent. Fitted on `situatedqa_temp_train`, measured on
  `situatedqa_temp_dev` and `freshqa_dev`, which the fit never sees.
* coverage: whether the corpus holds the answer, from the features of `gate.signals`. Three cases a
  question: its passage is in the corpus (covered); the passage was taken out but its neighbours stay
  (near); the corpus is on other topics (far). Fitted on one half of the questions of `squad20_dev` and
  `scifact_train`, measured on the other half.

What is printed as "fitted" is for a person to round and write into a profile; the measures below it are
of the profile as it stands. Embeddings are kept in the work directory: the first run takes minutes.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contracts.gate import CoverageProbed, GateRequested, Plan, ProbeHit
from gate.decide import choose_plan, compute_score
from gate.intent import classify, find_time_anchors, find_time_words
from gate.probe import content_terms, intent_similarity, term_coverage
from gate.profile import Profile, load_profiles
from gate.signals import Signals, read_signals
from gate.words import WORD, stem
from ingest.embed.cache import CachedEmbedder, EmbeddingCache
from ingest.embed.minilm.model import MiniLM

Floats = NDArray[np.float64]
NOW = datetime(2022, 6, 1, tzinfo=UTC)
"""When the questions about time were asked, roughly: their years are read against it."""
COVERAGE_FEATURES = ("dissimilarity", "missing_terms", "thin_sources", "flat_ranking", "even_similarity")
MEANS_CHANGE = {"moment": 2.0, "recent": 2.0}
"""Prior strengths of groups that are rare in the training questions and plain in meaning."""
TOP_HITS, TEXTS_READ = 8, 5
WORDS_A_CHUNK = 150
QUESTIONS_A_SET = 400
BACKGROUND_DOCUMENTS = 1_500
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


def main() -> None:
    """Fit, then measure, then print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--work", type=Path, default=Path("sluice-data") / "gate-tuning")
    parser.add_argument("--profile", default="default")
    options = parser.parse_args()
    profile = load_profiles()[options.profile]
    options.work.mkdir(parents=True, exist_ok=True)
    cache = EmbeddingCache(options.work / "embeddings.sqlite", 100_000)
    embedder = CachedEmbedder(MiniLM(options.work / "models"), cache)
    print(f"profile {profile.name} version {profile.version}, {profile.config_hash[:12]}")
    tune_time(options.data_dir / "gate", profile, embedder)
    tune_coverage(options.data_dir, profile, embedder)
    cache.close()


def tune_time(folder: Path, profile: Profile, embedder: CachedEmbedder) -> None:
    """Fit the time model, and report the profile's own on questions that the fit never sees."""
    prototypes = {name: embedder.embed(texts).vectors for name, texts in profile.prototypes().items()}

    def similarities(rows: Sequence[dict[str, str]]) -> list[dict[str, float]]:
        vectors = embedder.embed([row["text"] for row in rows]).vectors
        return [intent_similarity(vector, prototypes) for vector in vectors]

    train = read(folder / "situatedqa_temp_train.jsonl")
    names = ["margin", *profile.time.words, "past_year", "numbered_part"]
    inputs = np.array(
        [time_inputs(row["text"], near, profile) for row, near in zip(train, similarities(train), strict=True)]
    )
    prior = np.array([0.0, *(MEANS_CHANGE.get(name, 0.0) for name in names)])
    weights = logistic(inputs, np.array([bool(row["time_dependent"]) for row in train]), ridge=3.0, prior=prior)
    print("time, fitted: " + ", ".join(f"{n} {w:.2f}" for n, w in zip(["bias", *names], weights, strict=True)))
    for name, is_positive in (
        ("situatedqa_temp_train", lambda row: bool(row["time_dependent"])),
        ("situatedqa_temp_dev", lambda row: bool(row["time_dependent"])),
        ("freshqa_dev", lambda row: row["fact_type"] != "never-changing"),
    ):
        rows = read(folder / f"{name}.jsonl")
        found = [
            classify(row["text"], near, NOW.year, profile).time_sensitivity
            for row, near in zip(rows, similarities(rows), strict=True)
        ]
        print(f"time, {name} ({len(rows)}): {measures(np.array([is_positive(r) for r in rows]), np.array(found), 0.5)}")


def time_inputs(query: str, near: dict[str, float], profile: Profile) -> list[float]:
    """What the time model reads from one question, in the order of the fit."""
    bound = max(near[name] for name, intent in profile.intents.items() if intent.time_bound)
    other = max(near[name] for name, intent in profile.intents.items() if not intent.time_bound)
    found = find_time_words(query, profile.time)
    past_year, numbered_part = find_time_anchors(query, NOW.year)
    return [bound - other, *(float(name in found) for name in profile.time.words), past_year, numbered_part]


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


def logistic(
    inputs: Floats,
    targets: NDArray[np.bool_],
    ridge: float,
    prior: Floats | None = None,
    importance: Floats | None = None,
    steps: int = 40,
) -> Floats:
    """Weights (bias first) that maximise the likelihood less ridge/2 x the squared distance to `prior`, by Newton."""
    rows = np.column_stack([np.ones(len(inputs)), inputs])
    centre = np.zeros(rows.shape[1]) if prior is None else prior
    importance = np.ones(len(rows)) if importance is None else importance
    penalty = ridge * np.eye(rows.shape[1])
    penalty[0, 0] = 1e-6
    weights = centre.copy()
    for _ in range(steps):
        odds = 1 / (1 + np.exp(-rows @ weights))
        gradient = rows.T @ (importance * (odds - targets)) + penalty @ (weights - centre)
        weights -= np.linalg.solve((rows * (importance * odds * (1 - odds))[:, None]).T @ rows + penalty, gradient)
    return weights


def measures(targets: NDArray[np.bool_], scores: Floats, threshold: float) -> str:
    chosen = scores >= threshold
    hits = int((chosen & targets).sum())
    precision, recall = hits / max(1, int(chosen.sum())), hits / max(1, int(targets.sum()))
    f1 = 2 * precision * recall / max(1e-9, precision + recall)
    accuracy, area = float((chosen == targets).mean()), area_under_curve(targets, scores)
    return f"accuracy {accuracy:.3f}, precision {precision:.3f}, recall {recall:.3f}, F1 {f1:.3f}, area {area:.3f}"


def area_under_curve(targets: NDArray[np.bool_], scores: Floats) -> float:
    """Chance that a positive scores above a negative (ties count by order, which is close enough here)."""
    ranks = np.argsort(np.argsort(scores))
    positives = int(targets.sum())
    return float((ranks[targets].mean() - (positives - 1) / 2) / (len(targets) - positives))


def load(
    folder: Path, random: np.random.Generator
) -> tuple[list[dict[str, str]], dict[str, set[str]], list[dict[str, str]]]:
    """Some questions, what answers each, and the documents: those, and others as background."""
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        question_id, document_id, _ = line.split("\t")
        relevant[question_id].add(document_id)
    questions = read(folder / "queries.jsonl")
    questions = [questions[row] for row in random.permutation(len(questions))[:QUESTIONS_A_SET]]
    wanted = {document_id for question in questions for document_id in relevant[question["_id"]]}
    documents = read(folder / "corpus.jsonl")
    kept = [d for row, d in enumerate(documents) if row < BACKGROUND_DOCUMENTS or d["_id"] in wanted]
    return questions, relevant, kept


def chunks(document: dict[str, str]) -> Iterator[str]:
    words = document["text"].split()
    for start in range(0, max(1, len(words)), WORDS_A_CHUNK):
        yield f"{document['title']}\n{' '.join(words[start : start + WORDS_A_CHUNK])}"


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
