"""The questions, and which passages answer them.

The `.toml` files here have them; `answers` has, for each document that answers a question, phrases of which a passage
that answers holds one. Both were read in the documents themselves, before any question was asked.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.contracts.retrieval import RetrievedChunk

_WORD = re.compile(r"[^\W_]+")
FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and by the path of each document that answers it the phrases of its answering passages."""

    query: str
    answers: dict[str, tuple[str, ...]]

    def is_answered_by(self, chunk: RetrievedChunk) -> bool:
        """Whether the passage is of a document that answers, and holds one of its phrases."""
        words = _words(chunk.text)
        phrases = [those for path, those in self.answers.items() if f"/{chunk.file_path}".endswith(f"/{path}")]
        return any(_words(phrase) in words for those in phrases for phrase in those)

    def rank_answer(self, chunks: Sequence[RetrievedChunk]) -> int | None:
        """The rank of the first passage that answers, counted from 1; None where none does."""
        return next((rank for rank, chunk in enumerate(chunks, start=1) if self.is_answered_by(chunk)), None)


def read_questions(name: str) -> tuple[Question, ...]:
    """The questions of `NAME.toml`."""
    tables = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))["question"]
    return tuple(
        Question(table["query"], {path: tuple(held) for path, held in table["answers"].items()}) for table in tables
    )


def _words(text: str) -> str:
    """Letters and digits alone: Markdown's marks and line ends are no part of a phrase."""
    return " ".join(["", *_WORD.findall(text.casefold()), ""])
