"""Settings of an embedded memory: `rag_config.json`, beside the folder `db` of the journals.

    .ralph/
      rag_config.json
      db/memory/auth.jsonl

Without the file everything is as documented here. An unknown field or a wrong value is an error that names it.
Secrets are never in the file: it names the environment variable that holds them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from sluice.contracts.base import Value
from sluice.contracts.errors import InvalidSetting, first_problem
from sluice.contracts.memory.api import RagStatus
from sluice.memory.qdrant_schema import CollectionConfig

__all__ = ["EmbedderConfig", "ModelConfig", "QdrantConfig", "RagConfig", "RagStatus", "config_path", "read_config"]

CONFIG_NAME = "rag_config.json"
EnvironmentVariable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


class QdrantConfig(Value):
    """The Qdrant server, where `engine` is `qdrant`."""

    url: str | None = None
    """Like http://127.0.0.1:6333. Needs the extra `qdrant`."""
    key_variable: EnvironmentVariable | None = None
    """The environment variable with the server's key."""
    collection_prefix: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = "memory"
    """A collection is `<prefix>_<project>-<feature>`, so that several projects can share one server."""
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Longest that a search may take; it takes milliseconds, and the journal's own words answer instead."""


class EmbedderConfig(Value):
    """What makes vectors of texts."""

    provider: Literal["local", "endpoint", "none"] = "local"
    """`local`: all-MiniLM-L6-v2 on this machine. `endpoint`: one that speaks OpenAI's embeddings, like Ollama's.
    `none`: memory is searched by words alone."""
    url: str | None = None
    """Of the endpoint, up to and including its version: http://127.0.0.1:11434/v1."""
    model: str = ""
    """The model's name at the endpoint."""
    key_variable: EnvironmentVariable | None = None
    """The environment variable with the endpoint's key."""
    timeout_seconds: Annotated[float, Field(gt=0, le=120)] = 3.0
    """Longest that one request may take; a recall waits for it, and goes on by words."""
    document_prefix: Annotated[str, Field(max_length=100)] = ""
    """Put before each text that is embedded to be found, as `search_document: ` for nomic-embed-text."""
    query_prefix: Annotated[str, Field(max_length=100)] = ""
    """Put before each question, as `search_query: `."""
    model_folder: Path | None = None
    """Where the local model is kept, some 90 MB; by default in the user's cache, as all projects share it."""

    @model_validator(mode="after")
    def _complete(self) -> EmbedderConfig:
        if self.provider == "endpoint" and not (self.url and self.model):
            raise ValueError("provider endpoint needs url and model")
        return self


class ModelConfig(Value):
    """A language model that distils learnings and tells opposites apart. Off until `url` and `model` are set."""

    url: str | None = None
    """An endpoint that speaks OpenAI's chat completions, up to and including its version."""
    model: str | None = None
    """The model's name there."""
    key_variable: EnvironmentVariable | None = None
    """The environment variable with its key."""
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 30.0
    """Longest that one question may take. None is asked while a recording is written."""
    usd_per_million_tokens: Annotated[float, Field(ge=0)] = 0.0
    """Its price; 0 for a model of one's own."""
    max_usd: Annotated[float, Field(ge=0)] = 1.0
    """What one opened memory may spend; beyond it the rules go on alone."""
    max_questions: Annotated[int, Field(ge=0)] = 200
    """What one opened memory may ask, whatever it costs."""
    distils: bool = True
    """Whether it is asked for learnings that the rules miss."""
    judges: bool = True
    """Whether it decides on pairs of learnings that the rules leave open."""

    @model_validator(mode="after")
    def _both_or_none(self) -> ModelConfig:
        if (self.url is None) != (self.model is None):
            raise ValueError("set url and model, or neither")
        return self


class RagConfig(Value):
    """All that can be turned of an embedded memory."""

    engine: Literal["local", "qdrant", "none"] = "local"
    """What is searched: files beside the journals, a Qdrant, or (`none`) the journals' own words alone."""
    collection: CollectionConfig = CollectionConfig()
    qdrant: QdrantConfig = QdrantConfig()
    embedder: EmbedderConfig = EmbedderConfig()
    model: ModelConfig = ModelConfig()
    top_k: Annotated[int, Field(ge=1, le=100)] = 5
    """Results of a recall that names no number."""
    max_prompt_tokens: Annotated[int, Field(ge=50, le=20_000)] = 1_500
    """Tokens of a prompt block that names no number: about a page, which an agent reads in every iteration."""
    stagnation_repeats: Annotated[int, Field(ge=2, le=100)] = 3
    """From how many iterations of equal effect on, the last one included, a feature counts as stagnating."""

    @model_validator(mode="after")
    def _fits_together(self) -> RagConfig:
        if self.engine == "qdrant" and self.qdrant.url is None:
            raise ValueError("engine qdrant needs qdrant.url")
        if self.embedder.provider == "local" and self.collection.size != CollectionConfig().size:
            raise ValueError(f"collection.size is {self.collection.size}, and the local model gives 384 numbers")
        return self


def config_path(memory_folder: Path) -> Path:
    """Where `rag_config.json` is looked for: in the folder of `db/memory`, for another folder of journals in it."""
    is_usual = memory_folder.name == "memory" and memory_folder.parent.name == "db"
    return (memory_folder.parent.parent if is_usual else memory_folder) / CONFIG_NAME


def read_config(path: Path) -> RagConfig:
    """The configuration of a file; the documented values where there is none.

    Raises:
        InvalidSetting: it cannot be read, is no JSON, or has an unknown field or a wrong value. Names file and field.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return RagConfig()
    except OSError as error:
        raise InvalidSetting(str(path), f"cannot be read: {error.strerror}", "give its owner the right to") from error
    try:
        return RagConfig.model_validate_json(content)
    except ValidationError as error:
        field, problem = first_problem(error)
        remedy = "correct it, or remove the file to have the documented values"
        raise InvalidSetting(f"{path}: {field}", problem, remedy) from error
