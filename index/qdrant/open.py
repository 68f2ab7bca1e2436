"""The collection that holds a corpus, on the Qdrant server of the settings."""

from __future__ import annotations

from sluice.contracts.errors import InvalidSetting
from sluice.index.qdrant.collection import Collection
from sluice.index.settings import QdrantSettings


def open_collection(corpus: str, settings: QdrantSettings) -> Collection:
    """The collection of a corpus; nothing is asked of it yet. The caller closes it.

    Raises `InvalidSetting` when there is no URL or it is none, or when the library for it is not installed.
    """
    require_url(settings)
    from sluice.index.qdrant.server import ServerCollection, server_client

    return ServerCollection(server_client(settings), collection_name(corpus, settings), settings)


def require_url(settings: QdrantSettings) -> None:
    """Raise `InvalidSetting` unless the settings name a server."""
    if settings.url is None:
        raise InvalidSetting("qdrant.url", "not set, and index.engine is qdrant", "give the URL of a Qdrant server")
    if settings.url == "embedded":
        problem = "the embedded Qdrant, which one process alone could open, was removed"
        raise InvalidSetting("qdrant.url", problem, "give the URL of a Qdrant server, or set index.engine to local")


def collection_name(corpus: str, settings: QdrantSettings) -> str:
    """The name of a corpus's collection on a server."""
    return f"{settings.collection_prefix}_{corpus}"
