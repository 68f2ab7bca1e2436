"""Models that help to tell learnings apart and to distil them, asked before the journal is locked and never meanwhile.

A model may take seconds, for which the lock must not wait. So it is decided without the lock, which asks the models.
Where somebody else wrote in the meantime it is decided again under the lock, where what they said is remembered. What
was not asked by then raises `Unavailable`, as a model does that is away, and rules decide.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from sluice.contracts.errors import SluiceError, Unavailable
from sluice.contracts.memory.learning import FeatureLearning
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.journal.file import Journal
from sluice.memory.learning.deduplication import DeduplicationResult, check_deduplication
from sluice.memory.ports import AskModel, EmbedTexts, JudgePair, Polarity, Vectors

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Models:
    """What may be asked; None where there is none."""

    embed: EmbedTexts | None = None
    judge: JudgePair | None = None
    ask: AskModel | None = None
    name: str = ""
    """Of the language model that `ask` asks: learnings that it distils name it."""

    def compare(self, text: str, existing: Sequence[FeatureLearning]) -> DeduplicationResult:
        """What `text` is beside the learnings that are kept."""
        return check_deduplication(text, existing, embed=self.embed, judge=self.judge)


class AskedOnce:
    """Models for one decision that may be made twice. `close` ends the asking: from then on they only remember."""

    def __init__(self, models: Models) -> None:
        self._vectors = _Answers[Vectors]()
        self._polarities = _Answers[Polarity | None]()
        self._texts = _Answers[str]()
        self.models = Models(
            models.embed and self._embed(models.embed),
            models.judge and self._judge(models.judge),
            models.ask and self._ask(models.ask),
            models.name,
        )

    def close(self) -> None:
        """Ask nothing more."""
        for answers in (self._vectors, self._polarities, self._texts):
            answers.is_closed = True

    def _embed(self, embed: EmbedTexts) -> EmbedTexts:
        def embed_once(texts: Sequence[str]) -> Vectors:
            import numpy as np

            return np.stack([self._vectors.of(text, partial(_embed_one, embed, text)) for text in texts])

        return embed_once

    def _judge(self, judge: JudgePair) -> JudgePair:
        return lambda one, other: self._polarities.of((one, other), lambda: judge(one, other))

    def _ask(self, ask: AskModel) -> AskModel:
        return lambda system, question, most: self._texts.of((system, question), lambda: ask(system, question, most))


@dataclass(slots=True)
class _Answers(Generic[Answer]):
    """What a model said, by what it was asked; failures too, so that none is waited for twice."""

    known: dict[Hashable, Answer | SluiceError] = field(default_factory=dict)
    is_closed: bool = False

    def of(self, asked: Hashable, ask: Callable[[], Answer]) -> Answer:
        if asked not in self.known:
            if self.is_closed:
                raise Unavailable("no model is asked while the journal is locked")
            try:
                self.known[asked] = ask()
            except SluiceError as error:
                self.known[asked] = error
        answer = self.known[asked]
        if isinstance(answer, SluiceError):
            raise answer
        return answer


def _embed_one(embed: EmbedTexts, text: str) -> Vectors:
    row: Vectors = embed([text])[0]
    return row


def transact_with(
    models: Models, journal: Journal, decide: Callable[[FeatureMemory, Models], list[JournalEntry]]
) -> tuple[FeatureMemory, list[JournalEntry]]:
    """`Journal.transact` of what takes a while to decide: it is decided before, and only again where much changed.

    Iterations that were recorded meanwhile are no such change: they are looked at in their turn.
    """
    asked = AskedOnce(models)
    before = journal.read()
    entries = decide(before, asked.models)
    asked.close()
    return journal.transact(lambda state: entries if _is_as_before(state, before) else decide(state, asked.models))


def _is_as_before(state: FeatureMemory, before: FeatureMemory) -> bool:
    return state is before or (
        state.learnings == before.learnings
        and state.conflicts == before.conflicts
        and state.repetitions == before.repetitions
        and state.distilled == before.distilled
        and state.weighed == before.weighed
        and len(state.printed) == len(before.printed)
    )
