"""Which Qdrant holds a corpus: a server's collection by URL, or a shard in the corpus's folder."""

from __future__ import annotations

from pathlib import Path

from contracts.errors import InvalidSetting
from index.disk.layout import CorpusLayout
from index.qdrant.collection import Collection
from index.settings import QdrantSettings

EMBEDDED = "embedded"


def open_collection(root: Path, corpus: str, settings: QdrantSettings) -> Collection:
    """The collection of a corpus; nothing is asked of it yet. The caller closes it.

    Raises `InvalidSetting` when there is no URL or it is none, or when the library for it is not installed.
    """
    if settings.url is None:
        remedy = f"give the URL of a server, or {EMBEDDED!r} where a single process does everything"
        raise InvalidSetting("qdrant.url", "not set, and index.engine is qdrant", remedy)
    if settings.url == EMBEDDED:
        from index.qdrant.embedded import EdgeCollection

        return EdgeCollection(CorpusLayout(root, corpus).folder / "qdrant")
    from index.qdrant.server import ServerCollection, server_client

    return ServerCollection(server_client(settings), collection_name(corpus, settings), settings)


def require_shared(settings: QdrantSettings) -> None:
    """Raise `InvalidSetting` unless several processes can use it at once."""
    if settings.url is None or settings.url == EMBEDDED:
        problem = f"{EMBEDDED!r} serves one process alone, the workers are several" if settings.url else "not set"
        raise InvalidSetting("qdrant.url", problem, "give the URL of a Qdrant server")


def collection_name(corpus: str, settings: QdrantSettings) -> str:
    """The name of a corpus's collection on a server."""
    return f"{settings.collection_prefix}_{corpus}"
