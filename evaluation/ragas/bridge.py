"""The RFC's RAGAS bridge: figures of retrieval, and whether the retrieved passages support the answers.

Answers come from a file, or the judge's model makes them from the passages. Without a judge, support is measured by
sentences: a sentence is supported if one passage has a sentence near it in meaning, and holds most of its words and all
of its numbers and names. Support is not truth: a sentence that negates a passage's statement ("is not", "rarely") has
nearly the same words and vector, and counts as supported; docs/learning.md gives the rate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from sluice.contracts.errors import InvalidInput, first_problem
from sluice.contracts.retrieval import PromptMessage, Retrieval
from sluice.disk.durable import read_objects
from sluice.evaluation.chat_endpoint import ChatEndpoint, ChatMessage
from sluice.evaluation.ragas.environment import AT, AnsweredQuestion, RagasMetrics, RagasScore, Response
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.measures import compute_measures
from sluice.text.words import cut_sentences

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]
"""Returns vectors of length 1, shape (texts, d)."""

NEAR = 0.45
"""The least cosine of a supported sentence to a sentence of the passage: see `bench.groundedness`."""
HELD = 0.45
"""The least share of its content words that the passage holds."""
FEWEST_WORDS = 3
"""Fewest content words of a sentence with a statement: "Here is what I found:" has fewer."""

_WORD = re.compile(r"[^\W_]+(?:[.'’-][^\W_]+)*")
_CITATION = re.compile(r"\[\d+(?:,\s*\d+)*\]")
_SHORTEST_WORD = 4
"""Fewest letters of a content word: shorter ones are mostly function words."""
_SHORTEST_STEM = 5


class SentenceSupport(NamedTuple):
    """One sentence of an answer, the passage that supports it best, and how well.

    `words_held` is the share of its content words in the passage, `has_verbatim` whether all its numbers and names are.
    """

    sentence: str
    passage: int
    cosine: float
    words_held: float
    has_verbatim: bool

    @property
    def is_supported(self) -> bool:
        """Return whether the passage supports the sentence."""
        return self.has_verbatim and self.cosine >= NEAR and self.words_held >= HELD


def find_support(response: str, passages: Sequence[str], embed: Embed) -> tuple[SentenceSupport, ...]:
    """Return each sentence of `response` with a statement, with its support in `passages`; empty without a passage."""
    sentences = [text for one in cut_sentences(_CITATION.sub("", response)) if len(_words(text := one)) >= FEWEST_WORDS]
    of_passages = [(row, one) for row, passage in enumerate(passages) for one in cut_sentences(passage)]
    if not sentences or not of_passages:
        return ()
    vectors = embed([*sentences, *(text for _, text in of_passages)])
    cosines = vectors[: len(sentences)] @ vectors[len(sentences) :].T
    owner = np.array([row for row, _ in of_passages])
    texts = [_Held(passage) for passage in passages]
    return tuple(_best(one, row, owner, texts) for one, row in zip(sentences, cosines, strict=True))


def groundedness(support: Sequence[SentenceSupport]) -> float | None:
    """Return the share of supported sentences; None if the answer has no sentence to support."""
    return sum(one.is_supported for one in support) / len(support) if support else None


class _Held:
    """The contents of a passage: its words, the beginnings of long ones (to ignore endings), its numbers and names."""

    def __init__(self, passage: str) -> None:
        self.lowered = passage.casefold()
        self.words = {word.casefold() for word in _WORD.findall(passage)}
        self.beginnings = {word[:_SHORTEST_STEM] for word in self.words}

    def share(self, words: Sequence[str]) -> float:
        held = [
            word in self.words or (len(word) > _SHORTEST_STEM and word[:_SHORTEST_STEM] in self.beginnings)
            for word in words
        ]
        return sum(held) / len(held)

    def has_all(self, verbatim: Sequence[str]) -> bool:
        return all(one in self.lowered for one in verbatim)


def _best(sentence: str, cosines: Vectors, owner: NDArray[np.int64], passages: Sequence[_Held]) -> SentenceSupport:
    """Return the passage with the nearest sentence among those that support; if none supports, among all."""
    words, verbatim = _words(sentence), _verbatim(sentence)
    found = []
    for row, passage in enumerate(passages):
        of_passage = cosines[owner == row]
        if not len(of_passage):
            continue
        cosine, held = float(of_passage.max()), passage.share(words)
        found.append(SentenceSupport(sentence, row, round(cosine, 6), round(held, 6), passage.has_all(verbatim)))
    return max(found, key=lambda one: (one.is_supported, one.cosine))


def _words(sentence: str) -> list[str]:
    return [one.casefold() for one in _WORD.findall(sentence) if len(one) >= _SHORTEST_WORD]


def _verbatim(sentence: str) -> list[str]:
    """Return the numbers, and the capitalised words that do not begin the sentence, in lower case."""
    words = _WORD.findall(sentence)
    return [
        word.casefold()
        for position, word in enumerate(words)
        if any(letter.isdigit() for letter in word) or (position and word[0].isupper() and len(word) > 1)
    ]


ANSWER_TOKENS = 400
"""Limit of a generated answer: a few paragraphs."""
PASSAGES = 8
"""Passages that an answer is made from, as a gate request gets them by default."""


def read_responses(path: Path, cases: Sequence[Case]) -> dict[str, str]:
    """Return the answer of each case by its id, from a file with `{"id" or "query": …, "response": …}` a line.

    Raises `InvalidInput`, which names the line, if one is malformed or names no case.
    """
    by_query, known = {case.query: case.id for case in cases}, {case.id for case in cases}
    found: dict[str, str] = {}
    for where, fields in read_objects(path):
        try:
            one = Response.model_validate(fields)
        except ValidationError as error:
            problem = ": ".join(first_problem(error))
            raise InvalidInput(where, problem, "fields are id or query, and response") from error
        case_id = one.id or by_query.get(one.query or "", "")
        if case_id not in known:
            raise InvalidInput(where, "names none of the questions", "give the id or the query of a case")
        found[case_id] = one.response
    return found


def answer_cases(
    cases: Sequence[Case], search: Callable[[Case], Retrieval], respond: Callable[[Case, Retrieval], str | None]
) -> list[AnsweredQuestion]:
    """Return each case that has an answer, with the passages that the answer was made from."""
    answered = []
    for case in cases:
        found = search(case)
        response = respond(case, found)
        if response:
            answered.append(AnsweredQuestion(case.query, tuple(chunk.text for chunk in found.chunks), response))
    return answered


def given(responses: Mapping[str, str]) -> Callable[[Case, Retrieval], str | None]:
    """Return a function that looks up the answers read from a file."""
    return lambda case, _: responses.get(case.id)


def generated(endpoint: ChatEndpoint, most_usd: float | None) -> Callable[[Case, Retrieval], str | None]:
    """Return a function that generates answers from the retrieval's prompt, until the next may exceed `most_usd`.

    The function raises as `ChatEndpoint.ask`.
    """
    spent = 0.0

    def respond(_: Case, found: Retrieval) -> str | None:
        nonlocal spent
        messages = [_said(message) for message in found.prompt]
        if not found.chunks or (
            most_usd is not None and spent + endpoint.cost_at_most(messages, ANSWER_TOKENS) > most_usd
        ):
            return None
        reply = endpoint.ask(messages, max_tokens=ANSWER_TOKENS)
        spent += reply.usd
        return reply.text

    return respond


def _said(message: PromptMessage) -> ChatMessage:
    role = message.role if message.role in ("system", "assistant") else "user"
    return ChatMessage(role=role, content=message.content)


Judge = Callable[[Sequence[AnsweredQuestion]], Sequence[RagasScore]]
"""Judges each answer, in order: `evaluation.ragas.environment.judge_answers` with its settings."""

BY_RAGAS = "ragas"
BY_SUPPORT = "support by sentences"


class RagasBridge:
    """Evaluates questions with known answers; `embed` and `judge` are called only for answers.

    Without a judge faithfulness stays unknown, and groundedness is support by sentences.
    """

    def __init__(self, embed: Embed, judge: Judge | None = None, *, enabled: bool) -> None:
        self._embed = embed
        self._judge = judge
        self._enabled = enabled

    def evaluate(
        self, cases: Sequence[Case], rankings: Mapping[str, Sequence[str]], answers: Sequence[AnsweredQuestion] = ()
    ) -> RagasMetrics | None:
        """Return the figures; None while the flag `ragas` (`FEATURE_RAGAS_EVAL`) is off.

        `rankings` has the names that each case found, best first, by the case's id. Raises `InvalidSetting` if
        ir-measures is not installed, and the judge's errors.
        """
        if not self._enabled:
            return None
        values = compute_measures(cases, rankings)
        means = {name: sum(of_cases.values()) / len(cases) for name, of_cases in values.items()}
        scores = self.score(answers)
        known = {
            name: [value for score in scores if (value := getattr(score, name)) is not None]
            for name in ("groundedness", "faithfulness")
        }
        return RagasMetrics(
            recall_at_k=tuple(means[f"recall@{k}"] for k in AT),
            mrr=means["MRR@10"],
            **{name: fmean(of) if of else None for name, of in known.items()},
            judged={name: len(of) for name, of in known.items()},
            method=self.method,
        )

    @property
    def method(self) -> dict[str, str]:
        """Return the method of each figure; faithfulness needs a judge."""
        by_judge = {"groundedness": BY_RAGAS, "faithfulness": BY_RAGAS}
        return {"groundedness": BY_SUPPORT} if self._judge is None else by_judge

    def score(self, answers: Sequence[AnsweredQuestion]) -> Sequence[RagasScore]:
        """Score each answer: by the judge, or by support without one."""
        if self._judge is not None and answers:
            return self._judge(answers)
        return [self._by_support(answer) for answer in answers]

    def _by_support(self, answer: AnsweredQuestion) -> RagasScore:
        found = groundedness(find_support(answer.response, answer.passages, self._embed))
        failures = () if found is not None else ("groundedness: the answer states nothing, or cites nothing",)
        return RagasScore(groundedness=found, failures=failures)
