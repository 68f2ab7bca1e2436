"""Search engines of an embedded memory: files on this machine, or a Qdrant server. Both keep one corpus per feature."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sluice.memory.qdrant_schema import CollectionConfig, is_memory_corpus

if TYPE_CHECKING:
    from sluice.index.local.reader import IndexReader
    from sluice.index.local.writer import IndexWriter
    from sluice.index.qdrant.reader import QdrantReader
    from sluice.index.qdrant.server import ServerCollection
    from sluice.index.qdrant.writer import QdrantWriter
    from sluice.index.settings import QdrantSettings

Writer: TypeAlias = "IndexWriter | QdrantWriter"
Reader: TypeAlias = "IndexReader | QdrantReader"
Engine: TypeAlias = "LocalEngine | QdrantEngine"


class LocalEngine:
    """FAISS and Tantivy, below `root`."""

    name = "local"
    publish_after = 200
    """Most documents that may wait for publication. A reader finds them too, by analysing them in some 10 ms."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open_writer(self, collection: str) -> Writer:
        """Open the writer. Raises `Unavailable` while another process has it, `Corrupted` for damaged files."""
        from sluice.index.local.writer import IndexWriter

        return IndexWriter(self._root, collection)

    def open_reader(self, collection: str) -> Reader:
        """Return a reader; it opens nothing before its first use."""
        from sluice.index.local.reader import IndexReader
        from sluice.index.settings import QuerySettings

        return IndexReader(self._root, collection, QuerySettings())

    def collections(self) -> tuple[str, ...]:
        """Return the names of the collections' folders."""
        if not self._root.is_dir():
            return ()
        return tuple(sorted(one.name for one in self._root.iterdir() if is_memory_corpus(one.name)))

    def drop(self, collection: str) -> None:
        """Remove a collection; the journals hold its content."""
        shutil.rmtree(self._root / collection, ignore_errors=True)

    def close(self) -> None:
        """Do nothing: nothing is open."""


class QdrantEngine:
    """A Qdrant server. Writes go first to a journal of the index below `root`, as an instance's do."""

    name = "qdrant"
    publish_after = 0
    """A document is found only once it is published."""

    def __init__(self, root: Path, settings: QdrantSettings, config: CollectionConfig) -> None:
        self._root = root
        self._settings = settings
        self._config = config
        self._open: dict[str, ServerCollection] = {}

    def open_writer(self, collection: str) -> Writer:
        """Open the writer. Raises as `LocalEngine.open_writer`, and `Unavailable` when the server is away."""
        from sluice.index.qdrant.writer import QdrantWriter

        return QdrantWriter(self._root, collection, self._collection(collection))

    def open_reader(self, collection: str) -> Reader:
        """Return a reader; it opens nothing before its first use."""
        from sluice.index.qdrant.reader import QdrantReader
        from sluice.index.settings import QuerySettings

        return QdrantReader(self._collection(collection), collection, QuerySettings())

    def collections(self) -> tuple[str, ...]:
        """Return the names of the collections on the server, without the prefix."""
        from sluice.index.qdrant.server import list_corpora

        return tuple(filter(is_memory_corpus, list_corpora(self._settings)))

    def drop(self, collection: str) -> None:
        """Remove a collection; the journals hold its content."""
        self._collection(collection).drop()
        shutil.rmtree(self._root / collection, ignore_errors=True)

    def close(self) -> None:
        """Close the connections."""
        for collection in self._open.values():
            collection.close()
        self._open.clear()

    def _collection(self, name: str) -> ServerCollection:
        if name not in self._open:
            from sluice.index.qdrant.server import Hnsw, ServerCollection, collection_name, server_client

            graph = Hnsw(self._config.hnsw_m, self._config.ef_construct)
            client = server_client(self._settings)
            self._open[name] = ServerCollection(client, collection_name(name, self._settings), self._settings, graph)
        return self._open[name]
