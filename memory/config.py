"""Settings of memory: of an instance (`[memory]`), and of an embedded one, in `rag_config.json` beside the folder `db`.

    .ralph/
      rag_config.json
      db/memory/auth.jsonl

Without the file the documented defaults apply. An unknown field or a wrong value is an error that names it.
Secrets are never in the file: it names the environment variable that holds them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from sluice.contracts.base import FIXED, Value
from sluice.contracts.errors import InvalidSetting, first_problem
from sluice.contracts.memory.api import RagStatus
from sluice.memory.qdrant_schema import CollectionConfig

__all__ = ["EmbedderConfig", "ModelConfig", "QdrantConfig", "RagConfig", "RagStatus", "config_path", "read_config"]

CONFIG_NAME = "rag_config.json"
EnvironmentVariable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


class QdrantConfig(Value):
    """The Qdrant server, used if `engine` is `qdrant`."""

    url: str | None = None
    """Address, like http://127.0.0.1:6333. Needs the extra `qdrant`."""
    key_variable: EnvironmentVariable | None = None
    """Environment variable that holds the server's key."""
    collection_prefix: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = "memory"
    """Prefix of each collection's name, `<prefix>_<project>-<feature>`, so that projects can share one server."""
    timeout_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    """Time limit of a search, which usually takes milliseconds; after it the journal's own words answer instead."""


class EmbedderConfig(Value):
    """The embedder, which turns texts into vectors."""

    provider: Literal["local", "endpoint", "none"] = "local"
    """`local`: all-MiniLM-L6-v2 on this machine. `endpoint`: a server with OpenAI's embeddings API, like Ollama.
    `none`: memory is searched by words alone."""
    url: str | None = None
    """Base URL of the endpoint, including its version: http://127.0.0.1:11434/v1."""
    model: str = ""
    """The model's name at the endpoint."""
    key_variable: EnvironmentVariable | None = None
    """Environment variable that holds the endpoint's key."""
    timeout_seconds: Annotated[float, Field(gt=0, le=120)] = 3.0
    """Time limit of a request; a recall waits for it, then goes on by words."""
    document_prefix: Annotated[str, Field(max_length=100)] = ""
    """Prefix of each text that is indexed, as `search_document: ` for nomic-embed-text."""
    query_prefix: Annotated[str, Field(max_length=100)] = ""
    """Prefix of each question, as `search_query: `."""
    model_folder: Path | None = None
    """Folder of the local model, some 90 MB; by default in the user's cache, which all projects share."""

    @model_validator(mode="after")
    def _complete(self) -> EmbedderConfig:
        if self.provider == "endpoint" and not (self.url and self.model):
            raise ValueError("provider endpoint needs url and model")
        return self


class ModelConfig(Value):
    """A language model that distils learnings and finds opposites. Off until `url` and `model` are set."""

    url: str | None = None
    """Base URL of an endpoint with OpenAI's chat completions API, including its version."""
    model: str | None = None
    """The model's name at the endpoint."""
    key_variable: EnvironmentVariable | None = None
    """Environment variable that holds the endpoint's key."""
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 30.0
    """Time limit of a question. No question is sent while a recording is written."""
    usd_per_million_tokens: Annotated[float, Field(ge=0)] = 0.0
    """The model's price in USD; 0 for a model of one's own."""
    max_usd: Annotated[float, Field(ge=0)] = 1.0
    """Most USD that one opened memory may spend; beyond it the rules decide alone."""
    max_questions: Annotated[int, Field(ge=0)] = 200
    """Most questions that one opened memory may send, whatever they cost."""
    distils: bool = True
    """Whether the model proposes learnings that the rules miss."""
    judges: bool = True
    """Whether the model decides on pairs of learnings that the rules leave open."""

    @model_validator(mode="after")
    def _both_or_none(self) -> ModelConfig:
        if (self.url is None) != (self.model is None):
            raise ValueError("set url and model, or neither")
        return self


class RagConfig(Value):
    """All settings of an embedded memory."""

    engine: Literal["local", "qdrant", "none"] = "local"
    """Search engine: files beside the journals, a Qdrant server, or (`none`) the journals' own words alone."""
    collection: CollectionConfig = CollectionConfig()
    qdrant: QdrantConfig = QdrantConfig()
    embedder: EmbedderConfig = EmbedderConfig()
    model: ModelConfig = ModelConfig()
    top_k: Annotated[int, Field(ge=1, le=100)] = 5
    """Results of a recall that gives no number."""
    max_prompt_tokens: Annotated[int, Field(ge=50, le=20_000)] = 1_500
    """Tokens of a prompt block that gives no number: about a page, which an agent reads in every iteration."""
    stagnation_repeats: Annotated[int, Field(ge=2, le=100)] = 3
    """Iterations of equal effect, the last one included, from which on a feature counts as stagnating."""

    @model_validator(mode="after")
    def _fits_together(self) -> RagConfig:
        if self.engine == "qdrant" and self.qdrant.url is None:
            raise ValueError("engine qdrant needs qdrant.url")
        if self.embedder.provider == "local" and self.collection.size != CollectionConfig().size:
            raise ValueError(f"collection.size is {self.collection.size}, and the local model gives 384 numbers")
        return self


def config_path(memory_folder: Path) -> Path:
    """Return the path of `rag_config.json`: beside `db` for journals in `db/memory`, else in the journals' folder."""
    is_usual = memory_folder.name == "memory" and memory_folder.parent.name == "db"
    return (memory_folder.parent.parent if is_usual else memory_folder) / CONFIG_NAME


def read_config(path: Path) -> RagConfig:
    """Return the configuration of a file; the documented defaults if there is no file.

    Raises `InvalidSetting`, which names file and field, if it is unreadable, no JSON, or has an unknown or wrong field.
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


class MemorySettings(Value):
    """Settings of agents' memory in an instance: see docs/memory-service.md."""

    max_prompt_tokens: Annotated[int, FIXED] = 1_500
    """Tokens of a prompt block if the request gives no number: about a page, which an agent reads with every
    iteration."""
    distil_by_model: bool = False
    """Whether the judge's model proposes learnings that the rules miss, and decides whether two near ones are contrary
    if their words leave it open, within budget.day_usd; needs judge.model."""
    in_gate: bool = False
    """Whether the gate counts memory on a question like the session's messages, if a request names its feature. The
    flag `memory` has to be on too."""
