"""How the memory of a project fares, and putting it right: status, rebuild with a proof, orphans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from sluice.contracts.api import RunAccepted
from sluice.contracts.errors import Conflict, NotFound, Overloaded
from sluice.contracts.event import Body
from sluice.contracts.ingest import DocumentsRemoved
from sluice.contracts.memory.api import MemoryProof, RagStatus
from sluice.contracts.memory.events import IterationRecorded, LearningChanged
from sluice.contracts.outcome import Next
from sluice.memory.journal.compare import prove
from sluice.memory.qdrant_schema import collection_name, orphan_collections
from sluice.workers.service.memory.search import InstanceIndex
from sluice.workers.wiring.memory.search import IndexLag, held_checksums, measure_lag

if TYPE_CHECKING:
    from sluice.workers.context import Context
    from sluice.workers.service.caller import Caller
    from sluice.workers.service.service import Service
    from sluice.workers.wiring.memory.projects import ProjectMemories

IDS_PER_EVENT = 1_000


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was sent of one feature; `run` is None where the index lacks nothing, or the queues have no room."""

    feature: str
    corpus: str
    behind: int
    run: RunAccepted | None


class MemoryUpkeep:
    """What an operator, and the reconciler's process, do for the memories of an instance."""

    def __init__(self, context: Context, service: Service, memories: ProjectMemories) -> None:
        self._context = context
        self._service = service
        self._memories = memories

    def features(self, project: str, caller: Caller) -> tuple[str, ...]:
        """The features of a project that the caller may see."""
        found = self._memories.of(project).features()
        return tuple(one for one in found if caller.may_see(collection_name(project, one)))

    def status(self, project: str, caller: Caller) -> RagStatus:
        """How the memory of a project fares, as far as the caller may see it."""
        memory, features = self._memories.of(project), self.features(project, caller)
        journals = [memory.journal(one) for one in features]
        states = [one.read() for one in journals]
        corpora = tuple(collection_name(project, one) for one in features)
        health = InstanceIndex(self._context, project).health(features)
        return RagStatus(
            engine=health.engine,
            index_available=health.index_available,
            embedder_available=health.embedder_available,
            embedding_model=health.embedding_model,
            features=len(features),
            records=sum(len(one.iterations) for one in states),
            learnings=sum(len(one.learnings) for one in states),
            conflicts=sum(len(one.conflicts) for one in states),
            behind=sum(self.lag(project, one).behind for one in features),
            collections=corpora,
            orphans=self.orphans(project, caller),
            problems=tuple(f"{one.path.name}: {problem}" for one in journals for problem in one.problems()),
        )

    def lag(self, project: str, feature: str) -> IndexLag:
        """What the index lacks of one feature."""
        state = self._memories.of(project).journal(feature).read()
        corpus = collection_name(project, feature)
        return measure_lag(corpus, state, project, self._context.readers, self._context.ledger)

    def rebuild(self, project: str, caller: Caller, feature: str | None = None) -> list[Rebuilt]:
        """Send what the index lacks of a project, or of one feature of it, and remove what is too much.

        Raises:
            Forbidden: the feature is not the caller's.
            NotFound: nothing was remembered of it.
        """
        return [self.bring_up(project, one, caller.owner) for one in self._named(project, caller, feature)]

    def bring_up(self, project: str, feature: str, owner: str, *, once_per: str | None = None) -> Rebuilt:
        """Send what the index lacks of one feature. `once_per`: the same lag is sent once for each such name."""
        lag, corpus = self.lag(project, feature), collection_name(project, feature)
        if not lag.behind:
            return Rebuilt(feature, corpus, 0, None)
        key = None if once_per is None else f"memory:{corpus}:{lag.digest}:{once_per}"
        run = self._service.new_run(
            "memory", corpus, owner=owner, idempotency_key=key, fingerprint=lag.digest if key else ""
        )
        run = replace(run, is_small=lag.behind <= SMALL_LAG)
        try:
            accepted = self._service.begin(run, [Next(one) for one in _bodies(project, feature, lag)])
        except Overloaded:
            return Rebuilt(feature, corpus, lag.behind, None)
        return Rebuilt(feature, corpus, lag.behind, accepted)

    def prove(self, project: str, caller: Caller, feature: str | None = None) -> list[MemoryProof]:
        """Compare the journals of a project, or of one feature of it, with what the index holds.

        Raises:
            Forbidden: the feature is not the caller's.
            NotFound: nothing was remembered of it.
        """
        return [self._proof(project, one) for one in self._named(project, caller, feature)]

    def orphans(self, project: str, caller: Caller) -> tuple[str, ...]:
        """Corpora that are named like the project's collections, hold something, and have no journal."""
        features = self._memories.of(project).features()
        found = orphan_collections(self._context.readers.names(), project, features)
        return tuple(one for one in found if caller.may_see(one) and self._holds_something(one))

    def remove_orphan(self, project: str, corpus: str, caller: Caller) -> RunAccepted:
        """Remove everything that an orphan of the project holds.

        Raises:
            Conflict: it is none: a journal stands behind it, or it is no collection of this project.
        """
        caller.may_operate()
        if corpus not in self.orphans(project, caller):
            raise Conflict(f"corpus {corpus!r} is no orphan of project {project!r}")
        held = tuple(held_checksums(corpus, self._context.readers))
        run = replace(self._service.new_run("memory", corpus, owner=caller.owner), is_small=True)
        return self._service.begin(run, [Next(DocumentsRemoved(document_ids=held, erase=True))])

    def _named(self, project: str, caller: Caller, feature: str | None) -> tuple[str, ...]:
        """The one feature, or all that the caller may see."""
        if feature is not None:
            caller.may_touch(collection_name(project, feature))
        found = self.features(project, caller)
        if feature is None:
            return found
        if feature not in found:
            raise NotFound(f"nothing was remembered of feature {feature!r} of project {project!r}")
        return (feature,)

    def _proof(self, project: str, feature: str) -> MemoryProof:
        proof, lag = prove(self._memories.of(project).journal(feature)), self.lag(project, feature)
        return MemoryProof(
            feature=feature,
            collection=collection_name(project, feature),
            entries=proof.entries,
            state_sha256=proof.sha256,
            documents=lag.documents,
            indexed=lag.indexed,
            withheld=lag.withheld,
            missing=(*lag.entry_ids, *lag.learning_ids),
            surplus=lag.surplus,
            differences=proof.differences,
            problems=tuple(map(str, proof.problems)),
        )

    def _holds_something(self, corpus: str) -> bool:
        reader = self._context.readers.reader(corpus)
        reader.reload()
        return reader.document_count > 0


SMALL_LAG = 8
"""Documents that may go before bulk, as in submissions."""


def _bodies(project: str, feature: str, lag: IndexLag) -> Iterator[Body]:
    for some in _in_parts(lag.entry_ids):
        yield IterationRecorded(project=project, feature=feature, entry_ids=some)
    for some in _in_parts(lag.learning_ids if not lag.entry_ids else ()):  # each of the others sends all learnings
        yield LearningChanged(project=project, feature=feature, learning_ids=some)
    if lag.surplus:
        yield DocumentsRemoved(document_ids=lag.surplus)


def _in_parts(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    rest = iter(names)
    while some := tuple(islice(rest, IDS_PER_EVENT)):
        yield some
