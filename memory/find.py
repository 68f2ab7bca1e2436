"""Searches what is remembered of a feature: by the index, and by the journal's own words for what that lacks."""

from __future__ import annotations

from dataclasses import replace

from sluice.contracts.errors import SluiceError
from sluice.contracts.retrieval import MAX_QUERY_CHARACTERS
from sluice.memory.index_port import FollowingIndex
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.ports import Hit, Hits, SearchIndex
from sluice.memory.qdrant_schema import collection_name
from sluice.memory.recall.journal_search import search_journal

SEARCH_DEPTH = 50
"""Hits asked of the index, at least: age, outcome and task order them anew, and drop some."""
MOST_LACKING = 0.5
"""Share of a feature that the index may lack; beyond it the journal's own words know more than the index."""


def find(
    search: SearchIndex | None, project_path: str, state: FeatureMemory, query: str, *, top_k: int, task_id: int | None
) -> tuple[Hits | None, int]:
    """What the index finds, with what the journal's words find of the rest, and how many documents the index lacks.

    None instead of hits where there is no index, where it is away, and where it lacks so much that the journal knows
    more.
    """
    if search is None or not query.strip():
        return None, 0
    size = len(state.iterations) + len(state.learnings)
    try:
        lacking = search.follow(state) if isinstance(search, FollowingIndex) else ()
        if len(lacking) > MOST_LACKING * size:
            return None, len(lacking)
        collection = collection_name(project_path, state.feature)
        found = search.search(collection, query[:MAX_QUERY_CHARACTERS], max(SEARCH_DEPTH, 2 * top_k))
    except SluiceError:
        return None, size
    if lacking:
        words = search_journal(state, query, task_id)
        new = (Hit(one, words[one]) for one in lacking if one in words)
        found = replace(found, hits=(*found.hits, *new))
    return found, len(lacking)
