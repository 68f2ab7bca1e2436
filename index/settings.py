"""Settings of the index and of queries. Each default carries its unit and its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, model_validator

from contracts.base import Value


class IndexSettings(Value):
    """Journal, segments and generations."""

    keep_generations: Annotated[int, Field(ge=1)] = 3
    """Generations kept for rollback; one that a reader has pinned is kept beyond this number."""
    merge_factor: Annotated[int, Field(ge=2)] = 4
    """Neighbouring segments of about one size that become one: each chunk is written again once for each power of
    this number, some seven times until there are a million, and each segment costs a query about 20 µs."""
    max_segments: Annotated[int, Field(ge=1)] = 24
    """Segments above which neighbours are merged whatever their size."""
    aside_merge_chunks: Annotated[int, Field(ge=0)] = 5_000
    """Merges of more chunks than this are made by a thread of their own, and publishing does not wait for them:
    five thousand take about 50 ms."""
    verify_on_open: bool = True
    """Re-hash a generation's files before they are served. FAISS and Tantivy load damaged files silently."""
    journal_segment_bytes: Annotated[int, Field(ge=1_000)] = 64_000_000
    """Size at which the journal starts a new segment: small enough to copy away, large enough to be few."""
    flush_chunks: Annotated[int, Field(ge=1)] = 50_000
    """Chunks held in memory before they become a segment; at 384 dimensions 77 MB of vectors, and the texts."""
    term_heap_bytes: Annotated[int, Field(ge=15_000_000)] = 50_000_000
    """Memory of the term index writer; Tantivy refuses less than 15 MB."""
    refresh_after_seconds: Annotated[float, Field(ge=0)] = 3_600.0
    """An unchanged document fetched again within this time is the same version. Later its new date is
    recorded, since the gate judges freshness by it."""
    engine: Literal["local", "qdrant"] = "local"
    """What searches: generations on this machine's disk, or a Qdrant (section `qdrant`) for a corpus that outgrows it.
    The journal stays here either way, so changing this needs no new ingest: the next publish fills the other engine."""
    object_store_url: str | None = None
    """Where every published snapshot is copied to, like s3://bucket/prefix or file:///path; only new files travel.
    Keys and time-outs are in the section `object_store`."""


class RerankSettings(Value):
    """A second look at the best candidates, by what reads question and text together. Off until a provider is named."""

    provider: Literal["none", "http", "onnx"] = "none"
    """`http` asks an endpoint; its host and port must be open to egress. `onnx` is a model on this machine."""
    url: str | None = None
    """The endpoint, up to and including its version: `https://api.jina.ai/v1`, `http://127.0.0.1:8000/v1`."""
    shape: Literal["rerank", "tei", "chat"] = "rerank"
    """`rerank` as Cohere, Jina and vLLM have it, `tei` as text-embeddings-inference, `chat` asks a chat model."""
    model: str = ""
    """The model's name at the endpoint; `tei` serves one and needs none."""
    key: SecretStr | None = None
    """Sent as a bearer token."""
    usd_per_search: Annotated[float, Field(ge=0)] = 0.0
    """The price of one call, booked with every query that asks; hosted ones take some 0.002 USD."""
    model_dir: Path | None = None
    """The folder of a cross-encoder: `model.onnx` and `tokenizer.json`."""
    max_tokens: Annotated[int, Field(ge=16, le=8_192)] = 512
    """Tokens of question and text together that the local model reads, as most cross-encoders were trained."""
    batch_size: Annotated[int, Field(ge=1)] = 8
    """Pairs of one forward pass of the local model: what stays in the processor's cache."""
    threads: Annotated[int, Field(ge=0)] = 0
    """Threads of one forward pass; 0 takes every core."""
    depth: Annotated[int, Field(ge=1, le=200)] = 20
    """How many of the best candidates are looked at: twice what an answer holds. The cost is in proportion."""
    timeout_seconds: Annotated[float, Field(gt=0, le=30)] = 1.0
    """Over everything. After it the fused order stands: an agent would rather have that than wait."""
    pause_seconds: Annotated[float, Field(gt=0)] = 30.0
    """How long it is left alone once most of its last 20 calls (at least 5) failed, before one query tries it again."""

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

    candidates: Annotated[int, Field(ge=1, le=1_000)] = 50
    """Candidates that each arm hands to fusion."""
    fusion: Literal["adaptive", "weighted", "rrf"] = "adaptive"
    """`adaptive` mixes z-scores by how decisive the words of the question are, `weighted` by `alpha` and `beta`,
    `rrf` by ranks alone. docs/quality.md compares them."""
    lexical_strength: Annotated[float, Field(ge=0)] = 2.65
    """How much the adaptive mix trusts the lexical arm. 2.6-3.0 did best on one half of the questions of three public
    sets, and held on the other half."""
    rrf_k: Annotated[int, Field(ge=1)] = 60
    """The constant of reciprocal rank fusion, as in its paper (Cormack et al., SIGIR 2009)."""
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.35
    """Weight of the lexical arm in the weighted mix. 0.3-0.4 did best over nine public collections."""
    beta: Annotated[float, Field(ge=0, le=1)] = 0.65
    """Weight of the dense arm in the weighted mix."""
    max_query_terms: Annotated[int, Field(ge=1, le=1_024)] = 64
    """Terms of a question that are searched, the rarest first: a bound on the cost of a pasted page."""
    title_boost: Annotated[float, Field(ge=0)] = 0.5
    """Weight of a term found in the document's title; in the text it weighs 1. Half did best on SciFact's
    training questions: nDCG@10 0.699, against 0.689 without titles and 0.642 at twice the text's weight."""
    heading_boost: Annotated[float, Field(ge=0)] = 0.5
    """Weight of a term found in the chunk's section path."""
    code_boost: Annotated[float, Field(ge=0)] = 0.25
    """Weight of a part of an identifier (camelCase, snake_case); low, as plain words match in the text too."""
    duplicate_threshold: Annotated[float, Field(ge=0, le=1)] = 0.9
    """Jaccard index of three-word shingles from which two results are one; 0 for never. At 0.9 one word in 60 may
    differ: copies and reprints fall together, texts of one template stay apart."""
    max_per_domain: Annotated[int, Field(ge=0, le=200)] = 0
    """The most results of one host; 0 for no cap, as a corpus may well be of one host."""
    diversity: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Weight of being unlike the results before, against relevance. On SQuAD's questions every weight cost nDCG@10
    (0.1: 0.001, 0.3: 0.008), and duplicates are collapsed in any case."""
    trusted_domains: tuple[str, ...] = ()
    trusted_authors: tuple[str, ...] = ()
    max_recent_chunks: Annotated[int, Field(ge=0)] = 5_000
    """Chunks beyond the published generation that a reader holds in memory and searches exactly, at 384 dimensions
    about 20 MB and 0.2 ms a query; what is more waits for the next generation. 0: only what is published is found."""
    reload_timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
    """How long a query waits for a generation that covers the offset it asks for."""


class QdrantSettings(Value):
    """The Qdrant server, where `index.engine` is `qdrant`."""

    url: str | None = None
    """Address of the server, like http://qdrant:6333. Needs the extra `qdrant`."""
    api_key: SecretStr | None = None
    """Key of the server, if it asks for one."""
    collection_prefix: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = "sluice"
    """A corpus is the collection `<prefix>_<corpus>`, so that several instances can share one server."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
    """Longest that one request may take; a search takes milliseconds."""
    write_timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    """Longest that one batch may take to be stored: the server answers only when it is searchable."""
    batch_documents: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Documents sent at once while publishing; at 4 chunks of 384 dimensions each about 3 MB."""
    average_terms: Annotated[float, Field(gt=0)] = 120.0
    """Terms of a chunk that BM25 takes as the usual length. Fixed, as a chunk's weights are stored when it comes."""
    keep_replaced_seconds: Annotated[float, Field(ge=0)] = 60.0
    """How long replaced and removed chunks stay for searches that began before; longer than any search may take."""


class ObjectStoreSettings(Value):
    """Access to the object store of `index.object_store_url`."""

    endpoint: str | None = None
    """URL of a store that speaks S3 and is not Amazon's; http:// only where the network is trusted."""
    region: str | None = None
    """Region of the bucket; without one, what AWS_REGION says."""
    access_key_id: str | None = None
    """Without one, what the environment of the process gives: AWS_ACCESS_KEY_ID, a role, a token file."""
    secret_access_key: SecretStr | None = None
    """Belongs to `access_key_id`; better kept in a variable than in a file."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    """Longest that one request may take; a request carries at most 8 MB."""
    connect_timeout_seconds: Annotated[float, Field(gt=0)] = 5.0
    """Longest to wait for a connection."""
    max_retries: Annotated[int, Field(ge=0, le=20)] = 4
    """How often a request that failed in passing is tried again, with growing pauses."""
    max_concurrency: Annotated[int, Field(ge=1, le=64)] = 8
    """Files that travel at the same time."""
