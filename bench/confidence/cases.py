"""Questions against states of a corpus: what the product's formula sees of each, and whether the answer was found.

    covered        the passage that answers is there
    near           it was taken out; its neighbours of the same topic stay
    far            the whole topic was taken out
    stranger       a question of another collection, where a collection has no topics
    unanswerable   a question written to look answered by a paragraph that does not answer it (SQuAD 2.0)

A topic is an article; of a collection of single documents it is the fiftieth of it that is nearest to the answers.
Each question meets a corpus of another size, from a handful of passages to all of them, as the nearest passage of
chance depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.gate.corpus import CANDIDATES, LEXICAL_WEIGHT, Corpus, Present, Question, read_answers, read_questions
from bench.gate.measures import Floats
from sluice.contracts.retrieval import RetrievedChunk
from sluice.gate.probe import question_terms
from sluice.index.terms.analysis import analyse, analyse_question
from sluice.index.terms.terms import weigh_repeats
from sluice.ingest.embed.cache import CachedEmbedder
from sluice.ingest.embed.minilm import MiniLM
from sluice.text.words import inverse_document_frequency
from sluice.trust.confidence import BY_MEANING, WORTH_READING, CoverageMeter, probability

PASSAGES = 8
"""As many as an answer has by default."""
COLLECTIONS = {
    "squad20_dev": 1_500,
    "scifact_train": 500,
    "cosqa_dev": 500,
    "npl": 93,
    "cacm": 52,
    "climate_fever_sent": 500,
}
"""Questions drawn of each."""
UNANSWERABLE = 1_500
SMALLEST, SMALL, MIDDLE = 3, 40, 600
"""Passages of other topics: a fifth of the questions meet up to 40, a quarter up to 600, the others half to all."""
TOPIC_SHARE = 50
SEED = 11


@dataclass(frozen=True)
class Case:
    """One question against one state of a corpus. `figures` has a row of cosine and coverage for each passage found.

    `match` is that of the tokens of the best passage, by the vectors that the product has; NaN where it is not read.
    """

    collection: str
    kind: str
    topic: str
    question: int
    chunk_count: int
    figures: Floats
    relevant: NDArray[np.bool_]
    match: float = math.nan
    misses_number: bool = False
    """Whether the best passage lacks a number of the question."""

    @property
    def answered(self) -> bool:
        """Whether one of the passages found answers."""
        return bool(self.relevant.any())


def read_cases(data_dir: Path, embedder: CachedEmbedder) -> Iterator[Case]:
    """The cases of every collection in which a passage was found, always the same."""
    strangers: Sequence[Question] = ()
    model = embedder.model_of(embedder.fingerprint)
    assert isinstance(model, MiniLM)
    for name, count in COLLECTIONS.items():
        folder = data_dir / name
        questions = read_questions(folder / "queries.jsonl", count, embedder, read_answers(folder))
        strangers = strangers or questions
        corpus = Corpus(folder, frozenset(), 10**9, embedder)
        viewer = Viewer(name, corpus, model)
        yield from (case for case in _cases_of(viewer, questions, strangers) if len(case.figures))
        if (folder / "unanswerable.jsonl").exists():
            everything = np.ones(len(corpus.texts), dtype=bool)
            for row, asked in enumerate(read_questions(folder / "unanswerable.jsonl", UNANSWERABLE, embedder)):
                yield viewer.see("unanswerable", "", -1 - row, asked, everything)


def _cases_of(viewer: Viewer, questions: Sequence[Question], strangers: Sequence[Question]) -> Iterator[Case]:
    corpus, random = viewer.corpus, np.random.default_rng(SEED)
    for row, question in enumerate(questions):
        answers = corpus.owned_by(question.answers)
        topic = _topic_of(corpus, answers)
        size = _draw_size(random, len(answers))
        others = _choose(random, ~topic, size)
        mates = _choose(random, topic & ~answers, max(1, size // 2))
        own = _choose(random, answers, size)
        name = str(corpus.topics[answers][0])
        for kind, present in (("covered", others | mates | own), ("near", others | mates), ("far", others)):
            yield viewer.see(kind, name, row, question, present)
        if not corpus.has_topics:
            yield viewer.see("stranger", name, row, strangers[row], others | mates | own)


def _topic_of(corpus: Corpus, answers: Present) -> Present:
    if corpus.has_topics:
        return np.isin(corpus.topics, corpus.topics[answers])
    nearness = (corpus.vectors @ corpus.vectors[answers].T).max(axis=1)
    return answers | (nearness >= np.sort(nearness)[-len(nearness) // TOPIC_SHARE])


def _draw_size(random: np.random.Generator, everything: int) -> int:
    which = random.random()
    if which < 0.2:
        return round(float(np.exp(random.uniform(np.log(SMALLEST), np.log(SMALL)))))
    if which < 0.45:
        return round(float(np.exp(random.uniform(np.log(SMALL), np.log(MIDDLE)))))
    return int(random.uniform(0.5, 1) * everything)


def _choose(random: np.random.Generator, among: Present, count: int) -> Present:
    chosen = np.zeros(len(among), dtype=bool)
    chosen[random.permutation(np.nonzero(among)[0])[:count]] = True
    return chosen


class Viewer:
    """One collection as the product's retrievers and its confidence see it."""

    def __init__(self, name: str, corpus: Corpus, model: MiniLM) -> None:
        self.name, self.corpus = name, corpus
        self._match = lru_cache(maxsize=None)(model.match_tokens)
        self._analyse = lru_cache(maxsize=50_000)(lambda text, language: analyse(text))
        self._passage = lru_cache(maxsize=None)(self._make_passage)

    def see(self, kind: str, topic: str, number: int, question: Question, present: Present) -> Case:
        """The case of a question against the chunks that are present."""
        corpus, count = self.corpus, int(present.sum())
        cosines, best = self._rank(question, present)
        words = {
            word: inverse_document_frequency(count, self._frequency(word, present))
            for word in question_terms(question.text)
        }
        meter = CoverageMeter(words, inverse_document_frequency(count, 1), self._analyse)
        passages = [self._passage(row) for row in best]
        figures = np.array([(float(cosines[row]), meter.share(one)) for row, one in zip(best, passages, strict=True)])
        relevant = corpus.owned_by(question.answers)[best] if kind == "covered" else np.zeros(len(best), dtype=bool)
        match, misses_number = math.nan, False
        odds = [BY_MEANING.log_odds(cosine, share, count) for cosine, share in figures]
        if odds and probability(max(odds)) >= WORTH_READING:
            passage = passages[int(np.argmax(odds))]
            match, misses_number = self._match(question.text, meter.window(passage)), meter.misses_number(passage)
        figures = figures.reshape(-1, 2)
        return Case(self.name, kind, topic, number, count, figures, relevant, match, misses_number)

    def _rank(self, question: Question, present: Present) -> tuple[Floats, list[int]]:
        """Each chunk's cosine, and the best chunks in the order of the product's fusion (`index.search.fusion`)."""
        cosines = np.where(present, self.corpus.vectors @ question.vector, -1.0)
        words = analyse_question(question.text)
        content = self._lexical(words.content, words.counts, present)
        pool = np.union1d(np.argsort(-cosines)[:CANDIDATES], np.argsort(-content)[:CANDIDATES])
        pool = pool[present[pool]]
        lexical = content[pool] + self._lexical(words.function, words.counts, present)[pool]
        fused = cosines[pool] * np.abs(cosines[pool]) + LEXICAL_WEIGHT * lexical
        return cosines, [int(row) for row in pool[np.argsort(-fused)][:PASSAGES]]

    def _lexical(self, words: Sequence[tuple[str, ...]], counts: Mapping[str, int], present: Present) -> Floats:
        scores = np.zeros(len(self.corpus.texts))
        for field, boost in self.corpus.fields:
            for (term,) in words:
                field.add_scores(scores, [term], present, boost * weigh_repeats(counts[term]))
        scores[~present] = 0
        return scores

    def _frequency(self, word: str, present: Present) -> int:
        parts = [
            max(int(present[field.rows_with(part)].sum()) for field, _ in self.corpus.fields) for part in analyse(word)
        ]
        return min(parts, default=0)

    def _make_passage(self, row: int) -> RetrievedChunk:
        title, text = self.corpus.titles[row], self.corpus.texts[row]
        return RetrievedChunk.model_construct(title=title, section_path=(), symbol_path=None, text=text, language=None)
