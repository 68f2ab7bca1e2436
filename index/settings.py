"""Settings of the index and of queries. Each default carries its unit and its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from sluice.contracts.base import FIXED, Value
from sluice.contracts.errors import InvalidSetting


class IndexSettings(Value):
    """Journal, segments and generations."""

    keep_generations: Annotated[int, FIXED] = 3
    """Generations kept for rollback; one that a reader has pinned is kept beyond this number."""
    engine: Literal["local", "qdrant"] = "local"
    """Search engine: generations on this machine's disk, or a Qdrant (section `qdrant`) for a corpus that outgrows it.
    The journal stays here either way, so changing this needs no new ingest: the next publish fills the other engine."""


class RerankSettings(Value):
    """Reranking of the best candidates by a model that reads question and text together. Off without a provider."""

    provider: Literal["none", "http", "onnx"] = "none"
    """`http` asks an endpoint; its host and port must be open to egress. `onnx` is a model on this machine."""
    url: str | None = None
    """The endpoint, up to and including its version: `https://api.jina.ai/v1`, `http://127.0.0.1:8000/v1`."""
    shape: Literal["rerank", "tei", "chat"] = "rerank"
    """`rerank` as Cohere, Jina and vLLM have it, `tei` as text-embeddings-inference, `chat` for a chat model."""
    model: str = ""
    """The model's name at the endpoint; `tei` serves one and needs none."""
    key: SecretStr | None = None
    """Sent as a bearer token."""
    usd_per_search: Annotated[float, Field(ge=0)] = 0.0
    """The price of one call, booked with every query that makes it; hosted ones take some 0.002 USD."""
    model_dir: Path | None = None
    """The folder of a cross-encoder: `model.onnx` and `tokenizer.json`."""
    depth: Annotated[int, FIXED] = 20
    """Number of best candidates that are reranked: twice what an answer holds. The cost grows in proportion."""
    timeout_seconds: Annotated[float, FIXED] = 1.0
    """Time limit of the whole reranking. After it the fused order stands: an agent would rather have that than wait."""

    @model_validator(mode="after")
    def _complete(self) -> RerankSettings:
        if self.provider == "http" and not self.url:
            raise ValueError("provider http needs the url of its endpoint")
        if self.provider == "http" and self.shape != "tei" and not self.model:
            raise ValueError("provider http needs the model's name")
        if self.provider == "onnx" and self.model_dir is None:
            raise ValueError("provider onnx needs model_dir, the folder of the model")
        return self


class QuerySettings(Value):
    """Fusion, trust and budget defaults."""

    lexical_weight: Annotated[float, Field(ge=0)] = 0.013
    """Weight of a BM25 score in the weighted sum, beside the signed square of the cosine. It belongs to the cosines of
    the local model; `sluice eval --fit` finds it for another. docs/decisions/0012-fusion.md has the curve."""
    graph_weight: Annotated[float, FIXED] = 1.0
    """Weight in that sum of a passage's nearness in the graph to the passages found, in [0, 1]; used by the strategy
    hybrid_graph alone. docs/decisions/0028-graph-retrieval.md has the curve."""
    duplicate_threshold: Annotated[float, FIXED] = 0.9
    """Jaccard index of three-word shingles from which two results count as one; 0 for never. At 0.9 one word in 60 may
    differ: copies and reprints fall together, texts of one template stay apart."""
    max_per_domain: Annotated[int, FIXED] = 0
    """Most results of one host; 0 for no cap, since a corpus may come from a single host."""
    max_recent_chunks: Annotated[int, FIXED] = 5_000
    """Chunks beyond the published generation that a reader holds in memory and searches exactly, at 384 dimensions
    about 20 MB and 0.2 ms a query; further chunks wait for the next generation. 0: only published chunks are found."""


class QdrantSettings(Value):
    """The Qdrant server, where `index.engine` is `qdrant`."""

    url: str | None = None
    """Address of the server, like http://qdrant:6333. Needs the extra `qdrant`."""
    api_key: SecretStr | None = None
    """Key of the server, if it needs one."""
    collection_prefix: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = "sluice"
    """A corpus is `<prefix>_<corpus>`, an alias of the collection that is searched, so that several instances can share
    one server."""
    shards: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Shards of a collection: a multiple of the cluster's nodes, so that each takes its share. Holds for collections
    that are made from then on; `sluice rebuild` makes one."""
    replicas: Annotated[int, Field(ge=1, le=10)] = 1
    """Copies of each shard, on different nodes; a write is done when more than half of them have it. 2: a node may be
    lost while one searches, 3: while one writes too. Holds as `shards` does."""
    timeout_seconds: Annotated[float, FIXED] = 10.0
    """Longest that one request may take; a search takes milliseconds."""
    write_timeout_seconds: Annotated[float, FIXED] = 60.0
    """Longest that one batch may take to be stored: the server answers only when it is searchable."""

    def require_url(self) -> None:
        """Raise `InvalidSetting` unless the settings name a server."""
        if self.url is None:
            raise InvalidSetting("qdrant.url", "not set, and index.engine is qdrant", "give the URL of a Qdrant server")
        if self.url == "embedded":
            problem = "the embedded Qdrant, which one process alone could open, was removed"
            remedy = "give the URL of a Qdrant server, or set index.engine to local"
            raise InvalidSetting("qdrant.url", problem, remedy)


class ObjectStoreSettings(Value):
    """The object store that several machines share; keys and region come from the process's environment."""

    url: str | None = None
    """Where it is, like s3://bucket/prefix, gs://, az:// or file:///path. With it blobs, journals, snapshots and
    memories live there, and the data directory is a cache of them, so that any number of machines are one instance.
    They share a `ledger_url` and a `broker_url`."""
    endpoint: str | None = None
    """URL of a store that speaks S3 and is not Amazon's; http:// only where the network is trusted."""
    timeout_seconds: Annotated[float, FIXED] = 60.0
    """Longest that one request may take; a request carries at most 8 MB."""
    max_retries: Annotated[int, FIXED] = 4
    """Most retries of a request after a passing failure, with growing pauses."""
