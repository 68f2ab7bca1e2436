"""A collection as the gate meets it: chunks of the product's chunker, found by both retrievers, some documents absent.

The retrievers are exhaustive and in memory, so that each question can meet a corpus of its own: cosine over every
chunk, BM25 over text and title, fused as the square of the cosine plus a share of BM25.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.gate.collections import read
from bench.gate.measures import Floats
from bench.gate.sentences import choose_sentences
from sluice.contracts.document import Document, Provenance
from sluice.contracts.gate import CoverageProbed, ProbeHit, ProbeSentence
from sluice.evaluation.retrieval.cases import read_documents
from sluice.gate.probe import Passage, enough_mass, question_terms, term_coverage
from sluice.index.settings import QuerySettings
from sluice.index.terms.analysis import analyse, extract_content_terms
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.cache import CachedEmbedder
from sluice.ingest.embed.tokens import load_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings
from sluice.text.words import K1, B, inverse_document_frequency
from sluice.workers.steps.probe import READ_HITS

Present = NDArray[np.bool_]
"""For each chunk whether the corpus holds it."""
NOW = datetime(2022, 6, 1, tzinfo=UTC)
CANDIDATES = 50
PROBE_HITS = 10
LEXICAL_WEIGHT = QuerySettings().lexical_weight
EMBEDDED_AT_ONCE = 512


@dataclass(frozen=True)
class Question:
    """A question, its vector, and the documents that answer it."""

    text: str
    vector: NDArray[np.float32]
    answers: frozenset[str]


class Field:
    """One field of the chunks: how often each has each term."""

    def __init__(self, texts: Sequence[str]) -> None:
        analysed = [analyse(text) for text in texts]
        self.lengths = np.array([len(terms) for terms in analysed], dtype=np.float64)
        rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row, terms in enumerate(analysed):
            for term, count in Counter(terms).items():
                rows[term].append((row, count))
        self._postings = {term: np.array(found) for term, found in rows.items()}

    def rows_with(self, term: str) -> NDArray[np.int64]:
        found = self._postings.get(term)
        return np.empty(0, dtype=np.int64) if found is None else found[:, 0]

    def add_scores(self, scores: Floats, terms: Sequence[str], present: Present, boost: float) -> None:
        """Add BM25 of the chunks that are present."""
        average = max(1e-9, float(self.lengths[present].mean()))
        for term in terms:
            rows = self.rows_with(term)
            if frequency := int(present[rows].sum()):
                counts = self._postings[term][:, 1]
                idf = inverse_document_frequency(int(present.sum()), frequency)
                norm = K1 * (1 - B + B * self.lengths[rows] / average)
                scores[rows] += boost * idf * counts * (K1 + 1) / (counts + norm)


class Corpus:
    """A collection, or the part of it that some questions need."""

    def __init__(self, folder: Path, wanted: frozenset[str], background: int, embedder: CachedEmbedder) -> None:
        """Read the first `background` documents, and those `wanted`."""
        tokenizer = load_tokenizer(None)
        provenance = Provenance(source="submission", fetched_at=NOW)
        self._embedder = embedder
        self.owners: list[str] = []
        self.titles: list[str] = []
        self.texts: list[str] = []
        self.embedded: list[str] = []
        for row, given in enumerate(read_documents(folder)):
            if row >= background and str(given.id) not in wanted:
                continue
            document = Document(
                id=str(given.id), media_type="text/plain", text=given.text, title=given.title, provenance=provenance
            )
            chunked = chunk_document(document, extract_document(document), ChunkSettings(), tokenizer)
            self.embedded += chunked.embedding_texts()
            for chunk in chunked.chunks:
                self.owners.append(document.id)
                self.titles.append(chunked.title or "")
                self.texts.append(chunk.text)
        self.vectors = embed(self.embedded, embedder)
        self.topics = np.array([topic_of(owner) for owner in self.owners])

    @cached_property
    def fields(self) -> tuple[tuple[Field, float], ...]:
        return ((Field(self.embedded), 1.0),)

    @property
    def has_topics(self) -> bool:
        """Whether several documents share a topic, as the paragraphs of an article do."""
        return len(set(self.topics)) < len(set(self.owners)) / 2

    def owned_by(self, documents: frozenset[str]) -> Present:
        return np.isin(self.owners, list(documents))

    def probe(self, question: Question, present: Present) -> CoverageProbed:
        """What the query worker would find if the corpus held the chunks that are `present`."""
        count = int(present.sum())
        words = question_terms(question.text)
        frequencies = {word: self._frequency(word, present) for word in words}
        cosines, top = self._rank(question, present)
        passages = [Passage(str(row), self.titles[row], self.texts[row], analyse) for row in top[:READ_HITS]]
        terms = term_coverage(words, frequencies, count, passages)
        chosen = choose_sentences(terms, passages, 1, enough_mass(count))
        vectors = embed([sentence.text for sentence in chosen], self._embedder)
        similarities = [round(float(vector @ question.vector), 6) for vector in vectors]
        return CoverageProbed(
            generation="bench",
            chunk_count=count,
            model_fingerprint="bench",
            hits=tuple(
                ProbeHit(
                    chunk_id=str(row),
                    document_id=self.owners[row],
                    dense_similarity=round(float(cosines[row]), 6),
                    fetched_at=NOW,
                )
                for row in top
            ),
            terms=terms,
            sentences=tuple(
                ProbeSentence(chunk_id=one.chunk_id, term_coverage=one.term_coverage, similarity=similarity)
                for one, similarity in zip(chosen, similarities, strict=True)
            ),
            probed_at=NOW,
        )

    def _rank(self, question: Question, present: Present) -> tuple[Floats, list[int]]:
        """Each chunk's cosine, and the best by both retrievers."""
        cosines = np.where(present, self.vectors @ question.vector, -1.0)
        lexical = np.zeros(len(self.texts))
        for field, boost in self.fields:
            field.add_scores(lexical, extract_content_terms(question.text), present, boost)
        lexical[~present] = 0
        dense_best, lexical_best = np.argsort(-cosines)[:CANDIDATES], np.argsort(-lexical)[:CANDIDATES]
        floor = lexical[lexical_best[-1]]
        pool = np.union1d(dense_best, lexical_best[lexical[lexical_best] > 0])
        fused = cosines[pool] * np.abs(cosines[pool]) + LEXICAL_WEIGHT * np.maximum(lexical[pool], floor)
        return cosines, [int(row) for row in pool[np.argsort(-fused)] if present[row]][:PROBE_HITS]

    def _frequency(self, word: str, present: Present) -> int:
        parts = analyse(word)
        counts = [max(int(present[field.rows_with(part)].sum()) for field, _ in self.fields) for part in parts]
        return min(counts, default=0)


def read_collection(
    folder: Path, question_count: int, background: int, embedder: CachedEmbedder, seed: int = 7
) -> tuple[Corpus, list[Question]]:
    """Some questions drawn at random, always the same, and a corpus that answers them all."""
    answers = read_answers(folder)
    questions = read_questions(folder / "queries.jsonl", question_count, embedder, answers, seed)
    wanted = frozenset().union(*(question.answers for question in questions))
    return Corpus(folder, wanted, background, embedder), questions


def read_questions(
    path: Path, count: int, embedder: CachedEmbedder, answers: Mapping[str, set[str]] | None = None, seed: int = 7
) -> list[Question]:
    """Questions of a file, drawn at random; those that `answers` knows, where it is given."""
    lines = [line for line in read(path) if answers is None or line["_id"] in answers]
    drawn = [lines[row] for row in np.random.default_rng(seed).permutation(len(lines))[:count]]
    vectors = embed([line["text"] for line in drawn], embedder)
    return [
        Question(line["text"], vector, frozenset(answers[line["_id"]] if answers else ()))
        for line, vector in zip(drawn, vectors, strict=True)
    ]


def read_answers(folder: Path) -> Mapping[str, set[str]]:
    """The documents that answer each question, by its id."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        question, document, grade = line.split("\t")
        if float(grade) > 0:
            found[question].add(document)
    return found


def embed(texts: Sequence[str], embedder: CachedEmbedder) -> NDArray[np.float32]:
    """Vectors (n, d) of length 1."""
    parts = [
        embedder.embed(texts[start : start + EMBEDDED_AT_ONCE]).vectors
        for start in range(0, len(texts), EMBEDDED_AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.empty((0, 384), dtype=np.float32)


def topic_of(document_id: str) -> str:
    """The article that a paragraph or a sentence is of; the document itself where its id names none."""
    return document_id.rsplit("#", 1)[0] if "#" in document_id else document_id.rsplit(":", 1)[0]
