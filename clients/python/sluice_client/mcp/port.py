"""The calls that the tools make: a part of those of `AsyncSluiceClient`, which is one of the implementations.

The server has the other, over its services in process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any, Protocol

from sluice_client import models


class Port(Protocol):
    """One caller's view of one server. Every call raises errors of `sluice_client.errors`."""

    def gate(
        self, query: str, corpus: str = ..., *, wait: bool, idempotency_key: str | None, **fields: Any
    ) -> Awaitable[models.RunView | models.RunAccepted]:
        """Begin a gate run."""

    def events(self, run_id: str, after: str | None = None) -> AsyncIterator[models.Event]:
        """Yield the run's events until it has ended."""

    def run(self, run_id: str) -> Awaitable[models.RunView]:
        """Return a run."""

    def runs(
        self, *, corpus: str | None = ..., limit: int | None = ..., cursor: str | None = ...
    ) -> Awaitable[models.Page[models.RunSummary]]:
        """List runs, the newest first."""

    def cancel(self, run_id: str) -> Awaitable[models.RunView]:
        """Stop the open work of a run."""

    def query(self, query: str, corpus: str = ..., **fields: Any) -> Awaitable[models.Retrieval]:
        """Search a corpus."""

    def corpora(self, *, limit: int | None = ..., cursor: str | None = ...) -> Awaitable[models.Page[Any]]:
        """List corpora."""

    def documents(
        self, corpus: str = ..., *, where: str | None = ..., limit: int | None = ..., cursor: str | None = ...
    ) -> Awaitable[models.Page[Any]]:
        """List documents."""

    def document_text(
        self, document_id: str, corpus: str = ..., start_line: int = ..., end_line: int | None = ...
    ) -> Awaitable[models.DocumentText]:
        """Return lines of a document's text."""

    def add_documents(
        self, documents: Sequence[Mapping[str, Any]], corpus: str = ..., *, idempotency_key: str | None
    ) -> Awaitable[models.RunAccepted]:
        """Submit documents, or URLs to crawl."""

    def count_forgettable(self, corpus: str = ..., **selection: Any) -> Awaitable[models.Meant]:
        """Count documents that `forget` would remove."""

    def forget(self, corpus: str = ..., **selection: Any) -> Awaitable[models.RunAccepted]:
        """Remove documents with every trace of them."""

    def feedback(self, run_id: str, **fields: Any) -> Awaitable[dict[str, str]]:
        """Give feedback on a run's answer."""

    def add_learning(
        self, text: str, project: str, feature: str, *, reason: str, **fields: Any
    ) -> Awaitable[models.LearningResult]:
        """Add a learning."""

    def record_iteration(
        self, data: str | dict[str, Any] | list[Any], project: str, feature: str, **fields: Any
    ) -> Awaitable[models.IterationAccepted]:
        """Record an iteration."""

    def recall(
        self, query: str, project: str, feature: str, *, top_k: int = ..., task_id: int | None = ...
    ) -> Awaitable[models.Recall]:
        """Return what memory holds on a question."""

    def memory_prompt(
        self,
        project: str,
        feature: str,
        *,
        task_id: int | None = ...,
        query: str | None = ...,
        max_tokens: int | None = ...,
    ) -> Awaitable[models.PromptBlock]:
        """Return a block for the next prompt."""

    def learnings(self, project: str, feature: str) -> Awaitable[models.Learnings]:
        """Return the learnings of a feature."""

    def memory_features(self, project: str) -> Awaitable[models.Page[str]]:
        """List a project's features."""

    def graph_neighbours(
        self, node: str, corpus: str = ..., *, direction: Any = ..., edges: Sequence[str] = ..., limit: int = ...
    ) -> Awaitable[models.Neighbours]:
        """Return what is next to a node."""

    def graph_query(self, query: str, corpus: str = ..., **fields: Any) -> Awaitable[models.CypherResult]:
        """Query a graph in Cypher."""
