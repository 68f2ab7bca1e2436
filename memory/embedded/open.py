"""Opens the memory of a repository, without a service: journals in a folder, an index beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sluice.memory.config import RagConfig, config_path, read_config
from sluice.memory.embedded.followed_index import FollowedIndex
from sluice.memory.embedded.guarded import sanitise_with_trust
from sluice.memory.embedded.language_model import LanguageModel
from sluice.memory.embedded.outside import folder_of_model, index_folder, make_index_folder, read_secret
from sluice.memory.embedded.vectors import TextVectors, open_vectors
from sluice.memory.journal.write import DEFAULT_FOLDER
from sluice.memory.memory import Memory
from sluice.memory.upkeep import Upkeep

if TYPE_CHECKING:
    from sluice.memory.embedded.engines import Engine


def open_memory(
    folder: Path | str = DEFAULT_FOLDER, project_path: Path | str | None = None, *, config: RagConfig | None = None
) -> Memory:
    """Open the memory whose journals lie in `folder`. Loads no model and makes no file before first use.

    `project_path` is the project's folder. It defaults to the folder that holds `.ralph`, or for another `folder` to
    the working directory. Settings come from `rag_config.json` (see `memory.config`) unless `config` is given. Raises
    `InvalidSetting`, which names file, field and remedy, if they are wrong.
    """
    folder = Path(folder).absolute()
    config = config or read_config(config_path(folder))
    if project_path is None:
        project_path = next((one.parent for one in folder.parents if one.name == ".ralph"), Path.cwd())
    project = str(Path(project_path).absolute())
    sanitise_with_trust("ready")  # loads and compiles the rules now, so that the first recording need not
    upkeep = Upkeep()
    index = _open_index(folder, project, config, upkeep) if config.engine != "none" else None
    model = LanguageModel(config.model) if config.model.url else None
    return Memory(
        folder,
        project,
        sanitise=sanitise_with_trust,
        search=index,
        judge=model.judge if model and config.model.judges else None,
        ask=model.ask if model and config.model.distils else None,
        config=config,
        upkeep=upkeep,
        on_close=index.close if index else lambda: None,
    )


def _open_index(folder: Path, project: str, config: RagConfig, upkeep: Upkeep) -> FollowedIndex:
    index = index_folder(folder)

    def vectors() -> TextVectors:
        make_index_folder(index)
        return open_vectors(config.embedder, config.collection.size, index)

    def engine(fingerprint: str) -> Engine:
        from sluice.memory.embedded.engines import LocalEngine, QdrantEngine

        root = folder_of_model(index, fingerprint)
        if config.engine == "local":
            return LocalEngine(root)
        from sluice.index.settings import QdrantSettings

        qdrant = config.qdrant
        settings = QdrantSettings(
            url=qdrant.url,
            api_key=read_secret("qdrant", qdrant.url or "", qdrant.key_variable),
            collection_prefix=qdrant.collection_prefix,
            timeout_seconds=qdrant.timeout_seconds,
        )
        return QdrantEngine(root, settings, config.collection)

    relevance = config.collection.least_relevance
    return FollowedIndex(project, engine, vectors, least_relevance=relevance, upkeep=upkeep)
