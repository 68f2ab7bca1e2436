"""The paths by which the graph led to passages are made of names that others gave: of files, of symbols, of pages."""

from __future__ import annotations

from sluice.contracts.graph.retrieval import GraphPath
from sluice.contracts.retrieval import Retrieval, RetrievedChunk
from sluice.trust.guard.guard import find_by_rule
from sluice.trust.private.finder import build_finder
from sluice.trust.private.mask import mask_label
from sluice.trust.settings import TrustSettings


def hide_doubtful_paths(found: Retrieval, settings: TrustSettings) -> Retrieval:
    """The retrieval without paths that read as an instruction, or hold private data of the kinds that are masked.

    The passages stay: what they say was judged by itself.
    """
    if not any(chunk.graph_path for chunk in found.chunks):
        return found
    finder = build_finder(settings)

    def is_doubtful(path: GraphPath) -> bool:
        told = str(path)
        return bool(find_by_rule(told)) or mask_label(told, settings.mask, finder) != told

    def shown(chunk: RetrievedChunk) -> RetrievedChunk:
        if chunk.graph_path is None or not is_doubtful(chunk.graph_path):
            return chunk
        return chunk.model_copy(update={"graph_path": None})

    return found.model_copy(update={"chunks": tuple(map(shown, found.chunks))})
