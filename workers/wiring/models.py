"""The models of a process as its parts use them: the embedder, the guard's model, the reranker. Nothing is loaded yet.

Each text is embedded by the model that its corpus is bound to. The guard's own model reads vectors of the local MiniLM,
whatever model a corpus has. Where that cannot be loaded the rules alone inspect, and `inspected_by` says so: once the
model is there, what they inspected counts as another version.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
from pydantic import Field
from tokenizers import Tokenizer

from sluice.contracts.base import Value
from sluice.contracts.budget import Ceilings, Spend
from sluice.contracts.document import ChunkedDocument
from sluice.contracts.errors import Corrupted, InvalidSetting, NotFound, Unavailable
from sluice.disk.durable import replace_file
from sluice.gate.profile import Profile
from sluice.index.search.onnx_scorer import OnnxScorer
from sluice.index.search.reranker import HttpScorer, Post, Reranker, Scorer
from sluice.index.settings import RerankSettings
from sluice.ingest.circuit_breaker import Breaker, BreakerRule
from sluice.ingest.embed.batching import LOCAL_PORTION, Portion, embedding_at_most, portion_of_a_second
from sluice.ingest.embed.embed import fingerprint_of_corpus
from sluice.ingest.embed.minilm import FINGERPRINTS, MiniLM
from sluice.ingest.embed.port import Embedded, Embedder, InFront, Vectors
from sluice.ingest.settings import EmbedSettings
from sluice.otel import metrics
from sluice.otel.context import span
from sluice.trust.confidence import Formula
from sluice.trust.guard.guard import ModelGuard, RuleGuard
from sluice.trust.inspect import Inspector
from sluice.trust.private.patterns import build_finder
from sluice.workers.runtime.claims import check_cancelled
from sluice.workers.runtime.observers import count_circuit_opened
from sluice.workers.settings import Settings

if TYPE_CHECKING:
    from sluice.disk.object_store import ObjectStore
    from sluice.ingest.http.fetch import Fetcher

log = structlog.get_logger(__name__)


class EmbeddingService:
    """The configured embedder as corpora use it. Safe for threads; loads nothing before it is needed."""

    def __init__(
        self,
        settings: EmbedSettings,
        embedder: Callable[[], Embedder],
        question_embedder: Callable[[], Embedder],
        tokenizer: Callable[[], Tokenizer],
        model_of_corpus: Callable[[str], str | None],
        hide: Callable[[str], str] = str,
    ) -> None:
        """`model_of_corpus` returns the fingerprint of the model of a corpus's vectors; None where it has none.

        `question_embedder` has the models of `embedder` and gives up sooner. These and `tokenizer` are called at first
        use. `hide` masks what no outside service may see; the local model gets the texts as they are.
        """
        self._hide, self._settings, self._embedder = hide, settings, embedder
        self._question_embedder, self._tokenizer = question_embedder, tokenizer
        self._model_of_corpus = model_of_corpus
        self._lock = threading.Lock()
        self._prototypes: dict[tuple[str, str], Mapping[str, Vectors]] = {}

    def embed_by(self, fingerprint: str, texts: Sequence[str]) -> Embedded:
        """Return vectors (n, d) of one model, for the index."""
        with span("embed", attributes={"sluice.texts": len(texts), "sluice.model": fingerprint}):
            return self._embedder().embed(self._shown(texts, fingerprint), fingerprint)

    def embed_question(self, texts: Sequence[str], fingerprint: str) -> Embedded:
        """Return one model's vectors (n, d). Raises `Unavailable` or a child within seconds if it is out of reach."""
        with span("embed", attributes={"sluice.texts": len(texts), "sluice.model": fingerprint}):
            return self._question_embedder().embed(self._shown(texts, fingerprint), fingerprint)

    def match_tokens(self, question: str, passage: str, fingerprint: str) -> float | None:
        """Return how well a passage matches a question, token by token; None if the model is not the local one."""
        embedder = self._question_embedder()
        model = embedder.model_of(fingerprint) if isinstance(embedder, InFront) else embedder
        return model.match_tokens(question, passage) if isinstance(model, MiniLM) else None

    def _shown(self, texts: Sequence[str], fingerprint: str) -> Sequence[str]:
        """Return the texts as the model with that fingerprint may see them."""
        if self._settings.uses_endpoint:
            from sluice.ingest.embed.minilm import FINGERPRINTS

            changed = map(self._settings.changed_by, self._settings.corpora.values())
            claimed = {one.openai_fingerprint for one in (self._settings, *changed)}
            if fingerprint in claimed or fingerprint not in FINGERPRINTS.values():
                return [self._hide(text) for text in texts]
        return texts

    def fingerprint(self, corpus: str) -> str:
        """Return the fingerprint of the model that the corpus is bound to, or will be."""
        return self._model_of_corpus(corpus) or fingerprint_of_corpus(self._settings, corpus)

    def portion(self, corpus: str, fingerprint: str | None = None) -> Portion:
        """Return the portion that is embedded at once for the corpus, by its model or the fallback's."""
        settings = self._settings.of_corpus(corpus)
        is_local = self._is_local_instead(settings, fingerprint)
        return LOCAL_PORTION if is_local else portion_of_a_second(settings)

    def reserve(self, texts: Sequence[str], corpus: str, ceilings: Ceilings, fingerprint: str | None = None) -> Spend:
        """Return the most that embedding the texts for a corpus may take, in the units that are under a ceiling.

        Tokens are only counted where that matters: for the local model they cost nothing, nor does a fallback.
        """
        settings = self._settings.of_corpus(corpus)
        if self._is_local_instead(settings, fingerprint):
            return Spend()
        is_paid = settings.provider != "local" and ceilings.least("usd") is not None
        if not texts or (ceilings.least("tokens") is None and not is_paid):
            return Spend()
        return ceilings.capped(embedding_at_most(texts, settings, self._tokenizer())) or Spend()

    def _is_local_instead(self, settings: EmbedSettings, fingerprint: str | None) -> bool:
        """Return whether a fingerprint is the local model's, where the settings name an endpoint."""
        is_local = fingerprint in FINGERPRINTS.values() and fingerprint != settings.openai_fingerprint
        return is_local and settings.provider != "local"

    def prototypes(self, profile: Profile, fingerprint: str) -> Mapping[str, Vectors]:
        """Return the vectors of a profile's intent prototypes by one model, (n, d) for each intent."""
        key = profile.name, fingerprint
        with self._lock:
            if key not in self._prototypes:
                self._prototypes[key] = {
                    intent: self.embed_question(texts, fingerprint).vectors
                    for intent, texts in profile.prototypes().items()
                }
            return self._prototypes[key]


class ModelFit(Value):
    """The weights of one embedding model, fitted by `sluice eval --fit`."""

    fingerprint: str
    lexical_weight: Annotated[float, Field(ge=0)]
    confidence: Formula
    """The log-odds that a passage answers, by the model's cosine."""


class ModelFits:
    """The fitted weights of an instance, in a file for each model; those of another model are never returned. Machines
    that share an object store have the files there too, so that all rank alike."""

    def __init__(self, folder: Path, store: ObjectStore | None = None) -> None:
        self._folder, self._store = folder, store
        self.of = lru_cache(maxsize=None)(self._read)
        """Returns the weights of a model (None: of no model), as they were when first asked for; None without any."""

    def write(self, fit: ModelFit) -> Path:
        """Write the weights of a model in place of its former ones; return the file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path, content = self._path(fit.fingerprint), fit.model_dump_json(indent=1).encode()
        if self._store:
            self._store.write(f"{self._folder.name}/{path.name}", content)
        replace_file(path, content)
        return path

    def _read(self, fingerprint: str | None) -> ModelFit | None:
        if fingerprint is None:
            return None
        path = self._path(fingerprint)
        try:
            told = self._store.read(f"{self._folder.name}/{path.name}") if self._store else path.read_bytes()
        except (NotFound, FileNotFoundError):
            return None
        found = ModelFit.model_validate_json(told)
        return found if found.fingerprint == fingerprint else None

    def _path(self, fingerprint: str) -> Path:
        return self._folder / f"{sha256(fingerprint.encode()).hexdigest()[:16]}.json"


class GuardedInspection:
    """Looks for attacks and private data in chunks; by rules alone while the local model is away. Safe for threads."""

    def __init__(self, whole: Inspector, rules_alone: Inspector, embed: Callable[[Sequence[str]], Vectors]) -> None:
        self._whole, self._rules_alone, self._embed = whole, rules_alone, embed
        self._is_model_missing = False

    @property
    def version(self) -> str:
        """Identifier of the rules and the model; text that another version inspected may be judged differently now."""
        return (self._rules_alone if self._is_model_missing else self._whole).version

    def inspect(self, document: ChunkedDocument) -> ChunkedDocument:
        """Return the document with `inspection` set on chunks in which something was found, and with `inspected_by`.

        Its chunks stay as many and in the same order; those that are blocked are among them.
        """
        if not self._is_model_missing:
            try:
                return self._whole.inspect(document, self._embed)
            except (InvalidSetting, Corrupted, Unavailable) as error:
                log.warning("guard_without_model", error=str(error))
                self._is_model_missing = True
        return self._rules_alone.inspect(document, self._embed)


def build_inspector(settings: Settings, embedder: Callable[[], Embedder]) -> GuardedInspection:
    """Build the inspector of this process. `embedder` returns the configured embedder; nothing is loaded yet."""
    private = build_finder(settings.trust)
    whole, rules_alone = Inspector(ModelGuard(), private), Inspector(RuleGuard(), private)
    return GuardedInspection(whole, rules_alone, _local_vectors(settings, embedder))


def _local_vectors(settings: Settings, embedder: Callable[[], Embedder]) -> Callable[[Sequence[str]], Vectors]:
    """Return a function that embeds texts by the local model: a local embedder's own, so that no model loads twice."""
    embed = settings.embed
    fingerprint = FINGERPRINTS[embed.precision]
    if embed.provider == "local":
        return lambda texts: embedder().embed(texts, fingerprint).vectors
    folder = embed.model_dir or settings.model_dir
    model = MiniLM(folder, embed.threads, precision=embed.precision, check_cancelled=check_cancelled)
    return lambda texts: model.embed(texts).vectors


MOST_ANSWER_BYTES = 1_000_000
"""Largest answer, in bytes; the scores of 200 texts are some 20 kB, and some endpoints send the texts back."""
PAUSE_SECONDS = 30.0
"""Pause of the reranker once most of its last 20 calls (at least 5) failed, before one query tries it again."""


def build_reranker(
    settings: RerankSettings,
    fetcher: Callable[[], Fetcher],
    may_spend: Callable[[], bool],
    hide: Callable[[str], str] = str,
) -> Reranker | None:
    """Build the configured reranker; None if none is. Opens and loads nothing.

    `fetcher` is called at the first request to an endpoint: its requests obey the rules of egress. `may_spend` returns
    whether there is money for one more search. `hide` masks what no endpoint may see.
    """
    if settings.provider == "none":
        return None
    rule = BreakerRule(window=20, least=5, pause_seconds=PAUSE_SECONDS)
    return Reranker(
        _scorer(settings, fetcher, hide),
        depth=settings.depth,
        timeout_seconds=settings.timeout_seconds,
        breaker=Breaker(rule, clock=time.monotonic, on_open=lambda: count_circuit_opened("reranker")),
        may_spend=may_spend,
        on_outcome=lambda outcome: metrics.RERANKS.labels(outcome).inc(),
    )


class DailyBudget:
    """Budget of this process for reranking in a UTC day, in USD. Safe for threads.

    The ledger keeps the budget of runs and their day; this one holds for direct queries too, which have no row in it.
    """

    def __init__(self, price_usd: float, most_usd: float | None, now: Callable[[], datetime]) -> None:
        self._price_usd, self._most_usd, self._now = price_usd, most_usd, now
        self._day: date | None = None
        self._calls = 0
        self._guard = threading.Lock()

    def take(self) -> bool:
        """Take the price of one search from the budget; return whether there was enough."""
        if self._most_usd is None or not self._price_usd:
            return True
        with self._guard:
            today = self._now().date()
            if today != self._day:
                self._day, self._calls = today, 0
            if (self._calls + 1) * self._price_usd > self._most_usd + _ROUNDING_USD:
                return False
            self._calls += 1
            return True


_ROUNDING_USD = 1e-9
"""Tolerance in comparisons of sums of floats."""


class MaskedScorer:
    """A scorer on another machine, which sees neither texts nor question before they are masked."""

    def __init__(self, scorer: Scorer, hide: Callable[[str], str]) -> None:
        self._scorer, self._hide = scorer, hide

    def scores(self, query: str, texts: Sequence[str], timeout_seconds: float) -> Sequence[float]:
        """Implement `Scorer.scores` on masked texts."""
        return self._scorer.scores(self._hide(query), [self._hide(text) for text in texts], timeout_seconds)


def _scorer(settings: RerankSettings, fetcher: Callable[[], Fetcher], hide: Callable[[str], str]) -> Scorer:
    if settings.provider == "onnx" and settings.model_dir is not None:
        return OnnxScorer(settings.model_dir)
    scorer = HttpScorer(posting(fetcher), settings.url or "", settings.shape, settings.model, settings.key)
    return MaskedScorer(scorer, hide)


def posting(fetcher: Callable[[], Fetcher]) -> Post:
    """Return a function that posts through the egress proxy, with its rules, a cap on the answer and one time limit."""
    from sluice.ingest.http.fetch import FetchLimits

    def post(url: str, headers: Mapping[str, str], content: bytes, timeout_seconds: float) -> tuple[int, bytes]:
        limits = FetchLimits(timeout_seconds=timeout_seconds, max_bytes=MOST_ANSWER_BYTES, max_redirects=0)
        answer = fetcher().exchange(url, method="POST", headers=headers, content=content, limits=limits)
        return answer.status, answer.body

    return post
