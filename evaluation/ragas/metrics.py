"""The figures of the RFC's RAGAS bridge, by its own keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field

from sluice.contracts.base import Value

AT = (1, 5, 10)


class RagasMetrics(Value):
    """What the RFC calls `RAGASMetrics`. `recall_at_k` is recall among the first 1, 5 and 10.

    `groundedness` and `faithfulness` are None where no answer could be judged; `judged` says how many were, of each,
    and `method` by what: an LLM through the `ragas` package, or support by sentences (`evaluation.ragas.support`).
    """

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    recall_at_k: Annotated[tuple[float, ...], Field(alias="recallAtK")]
    mrr: float
    groundedness: float | None = None
    faithfulness: float | None = None
    judged: dict[str, int] = Field(default_factory=dict)
    method: dict[str, str] = Field(default_factory=dict)


class Response(Value):
    """A line of a file of answers: the case, by its id or its question, and what was answered."""

    id: str | None = None
    query: str | None = None
    response: Annotated[str, Field(min_length=1, max_length=32_000)]


class AnsweredQuestion(NamedTuple):
    """A question, the passages that its answer was made from, and the answer."""

    query: str
    passages: tuple[str, ...]
    response: str


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
