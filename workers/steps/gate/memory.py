"""What an agent's memory holds on a question, as texts that the gate may count beside the session's messages.

They say whether the agent knows enough; none of them is ever cited. What memory holds may lower the plan, so it is
taken with care: each text is sanitised once more, and one in which a command is found counts for nothing, as does a
learning that another contradicts, and an iteration that did not succeed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.contracts.errors import Unavailable
from sluice.contracts.gate import GateRequested
from sluice.contracts.memory.api import Recollection
from sluice.contracts.memory.model import IterationOutcome
from sluice.contracts.retrieval import Query, Retrieval
from sluice.memory.ports import Sanitise
from sluice.memory.qdrant_schema import collection_name
from sluice.memory.recall.rank import rank
from sluice.workers.steps.answer import retrieve
from sluice.workers.wiring.memory.search import IndexSearch

if TYPE_CHECKING:
    from sluice.workers.runtime.flags import FlagReader
    from sluice.workers.settings import Settings
    from sluice.workers.wiring.corpora import CorpusReaders
    from sluice.workers.wiring.embedding import EmbeddingService
    from sluice.workers.wiring.memory.projects import ProjectMemories

MOST_TEXTS = 8
SEARCH_DEPTH = 50


def recall_for_gate(
    request: GateRequested,
    *,
    memories: ProjectMemories,
    sanitise: Sanitise,
    readers: CorpusReaders,
    embedding: EmbeddingService,
    settings: Settings,
    flags: FlagReader,
) -> tuple[str, ...]:
    """The best texts of the memory that the request names; none where it names none, or the flag `memory` is off."""
    scope = request.memory
    if scope is None or not flags.enabled("memory"):
        return ()

    def ask(query: Query) -> Retrieval:
        readers.existing(query.corpus)
        return retrieve(query, readers, embedding, settings.rerank, settings.trust, flags.switched_off())[0]

    state = memories.of(scope.project).journal(scope.feature).read()
    try:
        hits = IndexSearch(ask).search(collection_name(scope.project, scope.feature), request.query, SEARCH_DEPTH)
    except Unavailable:
        hits = None
    found = rank(state, hits, request.query, top_k=MOST_TEXTS, task_id=None)
    cleaned = (sanitise(one.text) for one in found if _is_settled(one))
    return tuple(one.text for one in cleaned if one.text and not one.blocked and not one.commands)


def _is_settled(found: Recollection) -> bool:
    if found.learning is not None:
        return not found.learning.conflicts_with
    return found.outcome is IterationOutcome.SUCCESS
