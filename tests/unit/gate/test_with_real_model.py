"""The gate on real embeddings: a probe as the query worker makes it, from texts to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import cache

import numpy as np
import pytest

from bench.gate.sentences import choose_sentences
from sluice.contracts.gate import CoverageProbed, GateRequested, Message, ProbeHit, ProbeSentence
from sluice.contracts.plan import Plan
from sluice.gate.decide import decide
from sluice.gate.probe import enough_mass, intent_similarity, question_terms, session_measures, term_coverage
from sluice.gate.profile import Profile, load_profiles
from sluice.ingest.embed.minilm import MiniLM
from sluice.ingest.embed.port import Embedded
from tests.unit.gate.samples import NOW, OPEN, RICH, passage

PROFILES = load_profiles()
HEAPS = (
    "heapq: heap queue algorithm. This module gives a list the order of a heap: a binary tree in which every parent "
    "has a value that is not greater than that of its children. heappush adds a value and keeps the heap invariant.",
    "heapq.heappop(heap) takes the smallest value off the heap and returns it, keeping the heap invariant. An empty "
    "heap raises IndexError. To look at the smallest value without taking it, read heap[0].",
    "bisect: keep a list sorted while values are inserted, without sorting it again after each.",
)
GOVERNOR = ("Ada Reyes is the governor of the province of Norland. She took office after the spring election.",)
every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES.keys())


class CachedEmbedder:
    """The model, asked once for the same texts."""

    def __init__(self, model: MiniLM) -> None:
        self.fingerprint = model.fingerprint
        self.embed_once = cache(model.embed)

    def embed(self, texts: Sequence[str]) -> Embedded:
        return self.embed_once(tuple(texts))


@pytest.fixture(scope="module")
def embedder(minilm: MiniLM) -> CachedEmbedder:
    return CachedEmbedder(minilm)


def plan_for(
    query: str,
    texts: Sequence[str],
    embedder: CachedEmbedder,
    profile: Profile = PROFILES["default"],
    session: tuple[Message, ...] = (),
    age: timedelta = timedelta(seconds=20),
) -> Plan:
    """The plan for `query` over a corpus of `texts`, all looked up as far as a query worker would."""
    request = GateRequested(query=query, session=session)
    vector = embedder.embed([query]).vectors[0]
    cosines = embedder.embed(list(texts)).vectors @ vector if texts else np.empty(0)
    top = [int(row) for row in np.argsort(-cosines)]
    passages = [passage(texts[row], name=str(row)) for row in top]
    frequency = {term: sum(term in text.lower() for text in texts) for term in question_terms(query)}
    terms = term_coverage(list(frequency), frequency, len(texts), passages)
    sentences = choose_sentences(terms, passages, 1, enough_mass(len(texts)))
    near = embedder.embed([sentence.text for sentence in sentences]).vectors if sentences else np.empty((0, 384))
    messages = embedder.embed([message.content for message in session]).vectors if session else np.empty((0, 384))
    similarity, share = session_measures(vector, messages.astype(np.float32), terms, session)
    prototypes = {name: embedder.embed(list(kept)).vectors for name, kept in profile.prototypes().items()}
    probe = CoverageProbed(
        generation="g1",
        chunk_count=len(texts),
        model_fingerprint=embedder.fingerprint,
        hits=tuple(
            ProbeHit(
                chunk_id=str(row), document_id=str(row), dense_similarity=float(cosines[row]), fetched_at=NOW - age
            )
            for row in top
        ),
        terms=terms,
        intent_similarity=intent_similarity(vector, prototypes),
        sentences=tuple(
            ProbeSentence(chunk_id=sentence.chunk_id, term_coverage=sentence.term_coverage, similarity=cosine)
            for sentence, cosine in zip(sentences, map(float, near @ vector), strict=True)
        ),
        session_similarity=similarity,
        session_term_coverage=share,
        probed_at=NOW,
    )
    return decide(request, probe, profile, OPEN, RICH, NOW).plan


@every_profile
def test_what_was_just_crawled_answers_the_question_it_was_crawled_for(
    embedder: CachedEmbedder, profile: Profile
) -> None:
    question = "how does heapq keep the heap invariant when a value is pushed"
    assert plan_for(question, (), embedder, profile) is Plan.FULL_LOOP
    assert plan_for(question, HEAPS, embedder, profile) is Plan.RETRIEVE


@every_profile
def test_a_corpus_about_something_else_does_not(embedder: CachedEmbedder, profile: Profile) -> None:
    question = "which minerals make up granite"
    assert plan_for(question, HEAPS, embedder, profile) is Plan.FULL_LOOP


@every_profile
def test_a_question_about_an_office_is_asked_again_when_the_answer_is_old(
    embedder: CachedEmbedder, profile: Profile
) -> None:
    question = "who is the current governor of Norland"
    assert plan_for(question, GOVERNOR, embedder, profile) is Plan.RETRIEVE
    assert plan_for(question, GOVERNOR, embedder, profile, age=timedelta(days=400)) in (Plan.SEARCH, Plan.FULL_LOOP)


@every_profile
def test_a_session_that_holds_the_answer_is_enough(embedder: CachedEmbedder, profile: Profile) -> None:
    question = "when was the Golden Gate Bridge opened to traffic"
    answer = Message(role="assistant", content="The Golden Gate Bridge was opened to vehicle traffic on 28 May 1937.")
    asked = Message(role="user", content="When was the Golden Gate Bridge opened to traffic?")
    assert plan_for(question, (), embedder, profile, (asked, answer)) is Plan.SKIP
    assert plan_for(question, (), embedder, profile, (asked,)) is Plan.FULL_LOOP


@pytest.mark.parametrize(
    "words", ["thanks a lot", "Hello there!", "good morning", "thanks!", "hi there!", "ok, many thanks"]
)
def test_small_talk_goes_nowhere(embedder: CachedEmbedder, words: str) -> None:
    assert plan_for(words, (), embedder) is Plan.SKIP


@pytest.mark.parametrize(
    "question",
    [
        "what if the earth had two moons",
        "who are the Beatles",
        "ok google nexus price",
        "goodbye lullaby album release",
    ],
)
def test_a_real_question_is_not_taken_for_small_talk(embedder: CachedEmbedder, question: str) -> None:
    assert plan_for(question, (), embedder) is Plan.FULL_LOOP
