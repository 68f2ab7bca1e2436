"""Operations on memory for every door: record, learn, recall, prompt blocks.

The journal of the feature is written first, in one append; the next prompt reads it. Only then is a run recorded that
brings it into the index. Where there is no room for that run, or the process is killed in between, the journal has what
the index lacks, and the reconciler's process sends it later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.contracts.api import RunAccepted
from sluice.contracts.errors import Forbidden, InvalidSetting, NotFound, Overloaded, Unavailable
from sluice.contracts.event import Body, Next
from sluice.contracts.index import IterationRecorded, LearningChanged
from sluice.contracts.ingest import DocumentsRemoved
from sluice.contracts.memory.api import (
    IterationAccepted,
    IterationContext,
    LearningPatch,
    LearningResult,
    Learnings,
    MemoryProof,
    PromptBlock,
    RagStatus,
    Recall,
    RememberedProject,
    StreamFormat,
)
from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState
from sluice.contracts.retrieval import Query, Retrieval
from sluice.memory.find import IndexHealth, make_status
from sluice.memory.qdrant_schema import collection_name, expected_collections, is_indexed, orphan_collections
from sluice.otel import metrics
from sluice.otel.context import current_traceparent
from sluice.workers.runtime.backpressure import DiskRoom
from sluice.workers.service.service import Service
from sluice.workers.wiring.memories import IndexLag, IndexSearch, held_checksums, measure_lag

if TYPE_CHECKING:
    from sluice.memory.journal.feature_memory import FeatureMemory
    from sluice.memory.memory import Memory
    from sluice.workers.context import Context
    from sluice.workers.service.callers import Caller

DEFAULT_TOP_K = 8
IDS_PER_EVENT = 1_000
SMALL_LAG = 8
"""Largest lag, in documents, that may precede bulk, as in submissions."""
PATIENCE_SECONDS = 1.0
"""Longest wait for the query pool: a healthy one answers in milliseconds, and the journal can be read instead."""

Changed = TypeVar("Changed")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Documents sent for one feature; `run` is None if the index lacks nothing, or the queues have no room."""

    corpus: str
    behind: int
    run: RunAccepted | None


class MemoryDesk:
    """The memories of one instance's projects. Safe for threads."""

    def __init__(self, context: Context, *, reads_write: bool = True) -> None:
        """`reads_write`: a read derives the learnings of new iterations; else a recorded prompt does, or a worker."""
        self.context = context
        self.room = DiskRoom(context.settings.data_dir)
        self._service = Service(context)
        self.derives = not context.memory_model.is_there  # else a worker derives with it: no request waits for it
        self.memories = context.open_memories(partial(InstanceIndex, context), derives=self.derives and reads_write)

    def of(self, project: str, caller: Caller) -> InstanceMemory:
        """Return the memory of a project as far as the caller may touch it. The project may be unknown yet."""
        return InstanceMemory(self, project, caller)

    def projects(self, caller: Caller, limit: int | None = None, after: str | None = None) -> list[RememberedProject]:
        """Return projects by name, and of each the features that the caller may see; none without such a feature."""
        names = (name for name in self.memories.names() if after is None or name > after)
        found = ((name, self.of(name, caller).features()) for name in names)
        shown = (RememberedProject(project=name, features=features) for name, features in found if features)
        return list(islice(shown, limit))

    def lag(self, project: str, feature: str) -> IndexLag:
        """Measure what the index lacks of one feature."""
        state = self.memories.of(project).journal(feature).read()
        corpus = collection_name(project, feature)
        return measure_lag(corpus, state, project, self.context.readers, self.context.ledger)

    def bring_up(self, project: str, feature: str, owner: str, *, once_per: str | None = None) -> Rebuilt:
        """Send what the index lacks of one feature. The same lag is sent once for each name `once_per`."""
        lag, corpus = self.lag(project, feature), collection_name(project, feature)
        if not lag.behind:
            return Rebuilt(corpus, 0, None)
        key = None if once_per is None else f"{lag.digest}:{once_per}"
        bodies = list(_bodies(project, feature, lag))
        run = self.begin(corpus, bodies, owner, key, lag.digest, is_small=lag.behind <= SMALL_LAG)
        return Rebuilt(corpus, lag.behind, run)

    def begin(
        self,
        corpus: str,
        bodies: Sequence[Body],
        owner: str,
        key: str | None = None,
        fingerprint: str = "",
        *,
        is_small: bool = True,
    ) -> RunAccepted | None:
        """Begin the run that brings what the journal has into the index; None if there is no room for it now.

        A run of the same `key` is begun once.
        """
        name = None if key is None else f"memory:{corpus}:{key}"
        told = fingerprint if key else ""
        run = self._service.new_run(
            "memory", corpus, owner=owner, idempotency_key=name, fingerprint=told, is_small=is_small
        )
        try:
            return self._service.begin(run, [Next(one) for one in bodies])
        except Overloaded:
            return None


class InstanceMemory:
    """A `MemoryPort` of one project for one caller, whose key must list the corpus of the feature: its collection."""

    def __init__(self, desk: MemoryDesk, project: str, caller: Caller) -> None:
        self.project_path = project
        self.where = f"the instance in {desk.context.settings.data_dir}"
        self._desk = desk
        self._memories = desk.memories
        self._caller = caller

    def record(
        self,
        feature: str,
        data: str | dict[str, Any] | list[Any],
        *,
        format: StreamFormat = "auto",
        context: IterationContext | None = None,
    ) -> IterationAccepted:
        """Implement `MemoryPort.record`. The same submission again gives the same entry and the same run.

        `run` is None where the queues have no room: the index follows later.
        """
        corpus = self._written_to(feature)
        recorded = self._memories.founded(self.project_path).record(feature, data, format=format, context=context)
        metrics.MEMORY_ITERATIONS.labels(recorded.record.outcome.value).inc(recorded.is_new)
        entry_id = recorded.entry_id
        told = IterationRecorded(project=self.project_path, feature=feature, entry_ids=(entry_id,))
        run = self._desk.begin(corpus, [told], self._caller.owner, entry_id, entry_id)
        return recorded.model_copy(update={"run": run})

    def learn(
        self,
        feature: str,
        text: str,
        reason: str,
        source: LearningSource = LearningSource.AGENT,
        iteration: int = 0,
        task_id: int | None = None,
    ) -> LearningResult:
        """Implement `MemoryPort.learn`. Also raises `Forbidden` if the key may not speak for a person."""
        self._written_to(feature)
        self._may_speak_as(source)
        memory = self._memories.founded(self.project_path)
        result = memory.learn(feature, text, reason, source, iteration, task_id)
        metrics.MEMORY_LEARNINGS.labels(result.verdict).inc()
        if result.learning is None or result.verdict not in ("unique", "conflict"):
            return result
        changed = [one.id for one in (result.learning, result.other) if one]  # `other` may be retired
        return result.model_copy(update={"run": self._tell_changed(feature, changed)})

    def patch(self, feature: str, learning_id: str, change: LearningPatch) -> FeatureLearning:
        """Implement `MemoryPort.patch`. Also raises `Forbidden` if the key may not speak for a person."""
        self._written_to(feature)
        self._may_speak_as(change.source)
        return self._changed(feature, lambda memory: memory.patch(feature, learning_id, change))

    def undo(self, feature: str, entry_id: str) -> list[FeatureLearning]:
        """Implement `MemoryPort.undo`."""
        self._written_to(feature)
        return self._changed(feature, lambda memory: memory.undo(feature, entry_id))

    def prune(self, feature: str) -> list[FeatureLearning]:
        """Implement `MemoryPort.prune`. Raises `NotFound` if nothing was remembered of the feature."""
        self._written_to(feature)
        return self._changed(feature, lambda memory: memory.prune(feature))

    def learnings(
        self, feature: str, *, task_id: int | None = None, state: LearningState | None = LearningState.ACTIVE
    ) -> Learnings:
        """Implement `MemoryPort.learnings`."""
        return self._readable(feature).learnings(feature, task_id=task_id, state=state)

    def recall(self, feature: str, query: str, top_k: int | None = None, task_id: int | None = None) -> Recall:
        """Implement `MemoryPort.recall`: by the index, or by the journal's own words while the index is away."""
        recalled = self._readable(feature).recall(feature, query, top_k or DEFAULT_TOP_K, task_id)
        metrics.MEMORY_RECALL_SECONDS.labels(recalled.searched).observe(recalled.duration_ms / 1e3)
        return recalled

    def prompt(
        self, feature: str, *, max_tokens: int | None = None, records: bool = True, **wanted: Any
    ) -> PromptBlock:
        """Implement `MemoryPort.prompt`; `wanted` holds its other parameters. Without `records` nothing is written."""
        memory = self._readable(feature)
        if records:
            self._written_to(feature)
            if self._desk.derives:
                memory.derive(feature)
        most = max_tokens or self._desk.context.settings.memory.max_prompt_tokens
        return memory.prompt(feature, max_tokens=most, records=records, **wanted)

    def export(self, feature: str) -> Iterator[str]:
        """Implement `MemoryPort.export`."""
        return self._readable(feature).export(feature)

    def features(self) -> tuple[str, ...]:
        """Return the features of the project that the caller may see."""
        found = self._memories.of(self.project_path).features()
        return tuple(one for one in found if self._caller.may_see(self._corpus(one)))

    def status(self) -> RagStatus:
        """Implement `MemoryPort.status` for the features that the caller may see."""
        memory, features = self._memories.of(self.project_path), self.features()
        index = InstanceIndex(self._desk.context, self.project_path)
        found = make_status([memory.journal(one) for one in features], index)
        behind = sum(self._desk.lag(self.project_path, one).behind for one in features)
        corpora = tuple(map(self._corpus, features))
        return found.model_copy(update={"behind": behind, "collections": corpora, "orphans": self.orphans()})

    def rebuild(self, feature: str | None = None) -> list[RunAccepted]:
        """Implement `MemoryPort.rebuild`: send what the index lacks, and remove its surplus."""
        features = self.features() if feature is None else (self._known(feature),)
        sent = (self._desk.bring_up(self.project_path, one, self._caller.owner) for one in features)
        return [one.run for one in sent if one.run is not None]

    def prove(self, feature: str) -> MemoryProof:
        """Implement `MemoryPort.prove` against the served index. Raises `NotFound` if nothing was remembered."""
        lag = self._desk.lag(self.project_path, self._known(feature))
        counted = {name: getattr(lag, name) for name in ("documents", "indexed", "withheld", "surplus")}
        missing = (*lag.entry_ids, *lag.learning_ids)
        return self._readable(feature).prove(feature).model_copy(update={**counted, "missing": missing})

    def orphans(self) -> tuple[str, ...]:
        """Return corpora that are named like the project's collections, hold something, and have no journal."""
        readers, features = self._desk.context.readers, self._memories.of(self.project_path).features()
        found = orphan_collections(readers.names(), self.project_path, features)
        return tuple(one for one in found if self._caller.may_see(one) and held_checksums(one, readers))

    def drop_orphans(self) -> tuple[str, ...]:
        """Implement `MemoryPort.drop_orphans` by a run for each. Raises `Forbidden` if the caller is no operator."""
        self._caller.may_operate()
        orphans = self.orphans()
        for corpus in orphans:
            held = tuple(held_checksums(corpus, self._desk.context.readers))
            self._desk.begin(corpus, [DocumentsRemoved(document_ids=held, erase=True)], self._caller.owner)
        return orphans

    def require_access(self, feature: str) -> None:
        """Raise `Forbidden` if the caller may not touch the feature. The feature need not exist."""
        self._caller.may_touch(self._corpus(feature))

    def _corpus(self, feature: str) -> str:
        return collection_name(self.project_path, feature)

    def _readable(self, feature: str) -> Memory:
        self.require_access(feature)
        return self._memories.of(self.project_path)

    def _written_to(self, feature: str) -> str:
        """Return the corpus of the feature, if the caller may touch it and the disk has room."""
        self.require_access(feature)
        self._desk.room.require()
        return self._corpus(feature)

    def _known(self, feature: str) -> str:
        if feature not in self._readable(feature).features():
            raise NotFound(f"nothing was remembered of feature {feature!r} of project {self.project_path!r} yet")
        return feature

    def _may_speak_as(self, source: LearningSource) -> None:
        """Refuse an agent's key to speak as a person or a reviewer, whose word outranks an agent's."""
        if source.priority > LearningSource.AGENT.priority and self._caller.role != "operator":
            raise Forbidden(
                f"this key may not speak as {source}: give source Agent, or use a key with the role operator"
            )

    def _changed(self, feature: str, change: Callable[[Memory], Changed]) -> Changed:
        """Change a feature's learnings, and send those that differ afterwards to the index."""
        memory = self._memories.of(self.project_path)
        journal = memory.journal(self._known(feature))
        before = dict(journal.read().learnings)
        made = change(memory)
        after = journal.read().learnings
        self._tell_changed(feature, [name for name, one in after.items() if before.get(name) != one])
        return made

    def _tell_changed(self, feature: str, learning_ids: Sequence[str]) -> RunAccepted | None:
        """Begin a run for each change: a learning that is restored and rejected again has to leave the index again."""
        if not learning_ids:
            return None
        told = LearningChanged(project=self.project_path, feature=feature, learning_ids=tuple(learning_ids))
        return self._desk.begin(self._corpus(feature), [told], self._caller.owner)


def _bodies(project: str, feature: str, lag: IndexLag) -> Iterator[Body]:
    for some in _in_parts(lag.entry_ids):
        yield IterationRecorded(project=project, feature=feature, entry_ids=some)
    for some in _in_parts(lag.learning_ids if not lag.entry_ids else ()):  # each IterationRecorded sends all learnings
        yield LearningChanged(project=project, feature=feature, learning_ids=some)
    if lag.surplus:
        yield DocumentsRemoved(document_ids=lag.surplus)


def _in_parts(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    rest = iter(names)
    while some := tuple(islice(rest, IDS_PER_EVENT)):
        yield some


class InstanceIndex(IndexSearch):
    """The index of one project, which workers fill: a `SearchIndex` that indexes nothing itself."""

    def __init__(self, context: Context, project: str) -> None:
        super().__init__(self._ask_pool)
        self._context = context
        self._project = project

    def follow(self, state: FeatureMemory, *, wholly: bool = False) -> Collection[str]:
        """Return what the index lacks; runs that are under way bring it."""
        return self.lacking(state)

    def lacking(self, state: FeatureMemory) -> Collection[str]:
        """Return the ids of iterations and learnings that the index does not serve yet."""
        corpus, readers = collection_name(self._project, state.feature), self._context.readers
        wanted = [*state.iterations, *(name for name, one in state.learnings.items() if is_indexed(one))]
        if not readers.exists(corpus):
            return wanted
        reader = readers.reader(corpus)
        reader.reload()
        if reader.document_count == len(wanted):  # nearly always the same documents, and thousands need no look
            return ()
        held = reader.documents(wanted)
        return [name for name in wanted if name not in held]

    def health(self, features: tuple[str, ...]) -> IndexHealth:
        """Return the state of the instance's index and embedder; what a caller may see of it, `status` adds."""
        from sluice.workers.broker.transport import BROKER_ERRORS

        is_served = embeds = False
        try:
            present = self._context.transport.present_workers()
            is_served = bool(present["query"] and present["index"])
            embeds = bool(present["embed"]) and self._context.transport.embedder_down() is None
        except (InvalidSetting, *BROKER_ERRORS):
            pass
        expected = expected_collections(self._project, features)
        return IndexHealth(
            engine=self._context.settings.index.engine,
            index_available=is_served,
            embedder_available=embeds,
            embedding_model=self._context.embedding.fingerprint(min(expected)) if expected else None,
        )

    def drop_orphans(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """Drop nothing: an operator removes orphans, see `InstanceMemory.drop_orphans`."""
        return ()

    def _ask_pool(self, query: Query) -> Retrieval:
        from sluice.workers.broker.direct_query import ask_query_pool
        from sluice.workers.broker.transport import BROKER_ERRORS

        try:
            raw = ask_query_pool(self._context.transport, query, current_traceparent(), PATIENCE_SECONDS)
        except (InvalidSetting, *BROKER_ERRORS) as error:
            raise Unavailable(f"the broker does not answer: {error}") from error
        return Retrieval.model_validate_json(raw)
