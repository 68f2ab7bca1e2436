"""The wiring: what a process needs, built once and only when it is first asked for.

A `Context` is made per process, after any fork. Nothing here decides anything.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Generic, TypeVar

from contracts.base import BlobRef
from contracts.budget import Ceilings, Spend
from contracts.document import ChunkBatch
from contracts.errors import Fenced, InvalidInput, NotFound, Overloaded
from contracts.event import Event
from contracts.gate import BudgetState, PolicyState
from gate.directives import CrawlLimits
from gate.policy import policy_state
from ledger.ledger import Ledger
from workers.broker.cancellation import Cancellations
from workers.broker.transport import Transport
from workers.runtime.backpressure import Admission
from workers.runtime.blob_store import BlobStore
from workers.runtime.heartbeat import check_cancelled
from workers.runtime.transient_pages import TransientPages
from workers.settings import Settings
from workers.wiring.observers import count_circuit_opened, count_fallback, log_refusal, utc_now
from workers.wiring.snapshot_upload import Shipper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tokenizers import Tokenizer

    from contracts.known_pages import PageMemory
    from contracts.retrieval import RetrievalPort
    from gate.profile import Profile
    from index.local.reader import IndexReader
    from index.local.writer import IndexWriter
    from index.qdrant.collection import Collection
    from index.qdrant.reader import QdrantReader
    from index.qdrant.writer import QdrantWriter
    from index.search.rerank.base import Reranker
    from ingest.crawl.crawler import Crawler
    from ingest.egress.proxy import EgressProxy
    from ingest.embed.port import Embedded, Embedder, Vectors
    from ingest.http.fetch import Fetcher
    from ingest.politeness.host_rendering import HostMemory
    from ingest.politeness.host_stats import HostFigures
    from ingest.search.negative_cache import EmptySearches
    from ingest.search.port import SearchProvider
    from ingest.search.quota import Quota
    from ingest.settings import Purpose

    Reader = IndexReader | QdrantReader
    Writer = IndexWriter | QdrantWriter


HANDOVER_SECONDS = 1.0
"""When to come back to a corpus that is being handed over: that takes about as long."""

Built = TypeVar("Built")


class lazy(Generic[Built]):  # noqa: N801 - used as a decorator
    """A property that is built at its first use and kept, however many threads ask for it at once."""

    def __init__(self, build: Callable[[Context], Built]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    def __set_name__(self, owner: type[Context], name: str) -> None:
        self._name = name

    def __get__(self, context: Context, owner: type[Context]) -> Built:
        with context.lock:
            if self._name not in context.__dict__:
                context.__dict__[self._name] = self._build(context)
            built: Built = context.__dict__[self._name]
            return built


class Context:
    """Everything that handlers work with. Safe across the threads of one process."""

    def __init__(self, settings: Settings, *, publish_patience_seconds: float | None = None) -> None:
        """`publish_patience_seconds` limits publishing for whoever has somebody waiting; the ledger has the event."""
        self.settings = settings
        self._publish_patience_seconds = publish_patience_seconds
        self.lock = threading.RLock()
        self._collections: dict[str, Collection] = {}
        self._readers: dict[str, Reader] = {}
        self._fetchers: dict[Purpose, Fetcher] = {}
        self._writers: dict[str, Writer] = {}
        self._writers_used: Counter[str] = Counter()
        self._prototypes: dict[tuple[str, str], Mapping[str, Vectors]] = {}
        self._closing = ExitStack()

    # -- state --------------------------------------------------------------------------------

    @lazy
    def ledger(self) -> Ledger:
        """The truth about runs and events."""
        ledger = Ledger(self.settings.ledger_location)
        self._closing.callback(ledger.close)
        return ledger

    @lazy
    def blobs(self) -> BlobStore:
        """Bodies too large for a message."""
        return BlobStore(self.settings.data_dir / "blobs")

    @lazy
    def transient_pages(self) -> TransientPages:
        """Raw pages of which no copy may be kept once they are read."""
        return TransientPages(self.settings.data_dir / "unarchived")

    @lazy
    def transport(self) -> Transport:
        """The broker."""
        transport = Transport(self.settings, publish_patience_seconds=self._publish_patience_seconds)
        self._closing.callback(transport.close)
        return transport

    @lazy
    def cancellations(self) -> Cancellations:
        """Word of cancelled runs."""
        cancellations = Cancellations(self.settings)
        self._closing.callback(cancellations.close)
        return cancellations

    @lazy
    def admission(self) -> Admission:
        """Whether there is room for one more request."""
        return Admission(self.ledger, self.settings.delivery)

    def cause_of(self, event: Event) -> Event:
        """The event that caused this one.

        Raises:
            NotFound: it has no cause, or the ledger does not know it.
        """
        if event.cause_id is None:
            raise NotFound(f"event {event.id} has no cause")
        return self.ledger.event(event.cause_id)

    def chunk_batch(self, reference: BlobRef) -> ChunkBatch:
        """The chunked documents that a message refers to."""
        return ChunkBatch.model_validate_json(self.blobs.get(reference))

    # -- gate ---------------------------------------------------------------------------------

    @lazy
    def profiles(self) -> Mapping[str, Profile]:
        """The gate's profiles by name."""
        from gate.profile import load_profiles

        return load_profiles(self.settings.gate.profiles_dir)

    def profile(self, name: str) -> Profile:
        """One profile.

        Raises:
            InvalidInput: there is none of that name.
        """
        if name not in self.profiles:
            raise InvalidInput("profile", f"no profile {name!r}", f"one of {', '.join(sorted(self.profiles))}")
        return self.profiles[name]

    def prototypes(self, name: str, fingerprint: str) -> Mapping[str, Vectors]:
        """The vectors of a profile's intent prototypes by one model, (n, d) for each intent."""
        with self.lock:
            if (name, fingerprint) not in self._prototypes:
                self._prototypes[name, fingerprint] = self._embedded_prototypes(name, fingerprint)
            return self._prototypes[name, fingerprint]

    def _embedded_prototypes(self, name: str, fingerprint: str) -> Mapping[str, Vectors]:
        prototypes = self.profile(name).prototypes()
        return {intent: self.embedder.embed(texts, fingerprint).vectors for intent, texts in prototypes.items()}

    @property
    def policy(self) -> PolicyState:
        """What the owner's settings allow."""
        search, crawl = self.settings.search, self.settings.crawl
        return policy_state(
            search_enabled=search.enabled, search_providers=len(search.providers), crawl_enabled=crawl.enabled
        )

    def budget_state(self, run_id: str) -> BudgetState:
        """What the run and the day have left."""
        search = self.search_at_most
        left = self.ledger.budget_left(run_id)
        return BudgetState.of(left, search_usd=search.usd, search_milliseconds=search.milliseconds)

    @lazy
    def crawl_limits(self) -> CrawlLimits:
        """How far a run may go by the settings."""
        search, crawl = self.settings.search, self.settings.crawl
        rendering = 1 if crawl.render == "never" else 2
        return CrawlLimits(
            max_pages=crawl.max_pages,
            max_depth=crawl.max_depth,
            max_bytes=crawl.run_bytes,
            page_bytes=crawl.max_page_bytes,
            page_milliseconds=rendering * crawl.page_timeout_seconds * 1_000,
            search_top_k=search.top_k,
            search_usd=self.search_at_most.usd,
            search_milliseconds=self.search_at_most.milliseconds,
            locale=search.locale,
            render=crawl.render,
        )

    # -- the outside world --------------------------------------------------------------------

    @lazy
    def egress(self) -> EgressProxy:
        """The one way out of this process, started.

        Raises:
            PolicyRefused: rule `egress`: nothing may leave at all.
        """
        from ingest.egress.proxy import EgressProxy
        from ingest.egress.rules import require_open

        require_open(self.settings.egress)
        proxy = EgressProxy(self.settings.egress, on_refusal=log_refusal)
        proxy.start()
        self._closing.callback(proxy.stop)
        return proxy

    def fetcher(self, purpose: Purpose) -> Fetcher:
        """HTTP through that way, for one purpose."""
        from ingest.crawl.egress_context import current_egress_grant
        from ingest.http.fetch import Fetcher

        with self.lock:
            if purpose not in self._fetchers:
                proxy_url, user_agent = self.egress.url_for(purpose), self.settings.crawl.agent
                self._fetchers[purpose] = Fetcher(
                    proxy_url, user_agent=user_agent, check_cancelled=check_cancelled, account=current_egress_grant
                )
            return self._fetchers[purpose]

    @lazy
    def search_providers(self) -> Sequence[SearchProvider]:
        """The configured providers, in order of fail-over."""
        from ingest.search.build import build_providers

        return build_providers(
            self.settings.search,
            fetcher=self.fetcher("search"),
            proxy_url=self.egress.url_for("search"),
            clock=utc_now,
            on_breaker_open=lambda: count_circuit_opened("provider"),
        )

    @lazy
    def search_quota(self) -> Quota:
        """Calls per provider and day, counted in the broker for all workers together."""
        from ingest.search.quota import BrokerQuota

        quota = BrokerQuota(self.settings.broker_location, key_prefix=self.settings.instance)
        self._closing.callback(quota.close)
        return quota

    @lazy
    def empty_searches(self) -> EmptySearches:
        """What providers found nothing for, remembered by all workers together."""
        from ingest.search.negative_cache import BrokerEmptySearches

        broker_url, seconds = self.settings.broker_location, self.settings.search.empty_seconds
        empty = BrokerEmptySearches(broker_url, seconds=seconds, key_prefix=self.settings.instance)
        self._closing.callback(empty.close)
        return empty

    @lazy
    def search_at_most(self) -> Spend:
        """What one search may take, with every fail-over."""
        from ingest.search.build import search_at_most

        return search_at_most(self.settings.search)

    @lazy
    def page_memory(self) -> PageMemory:
        """What was read of each page, by which to know it again."""
        return self.ledger.page_memory(read_as=self._way_of_reading, is_there=self._has_journal)

    def _has_journal(self, corpus: str) -> bool:
        from index.disk.layout import CorpusLayout

        return CorpusLayout(self.index_root, corpus).journal.is_dir()

    @property
    def _way_of_reading(self) -> str:
        """What stands for all that decides what becomes of a page: one that was read otherwise is read again."""
        told = f"{version('sluice')} {self.settings.chunk.model_dump_json()}"
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    @lazy
    def host_figures(self) -> HostFigures:
        """What the crawl did to each host, counted in the broker."""
        from ingest.politeness.host_stats import HostFigures

        figures = HostFigures(self.settings.broker_location, clock=utc_now, key_prefix=self.settings.instance)
        self._closing.callback(figures.close)
        return figures

    @lazy
    def host_memory(self) -> HostMemory:
        """Which hosts build their pages by scripts, learned in the broker."""
        from ingest.politeness.host_rendering import HostMemory

        memory = HostMemory(self.settings.broker_location, key_prefix=self.settings.instance)
        self._closing.callback(memory.close)
        return memory

    @lazy
    def crawler(self) -> Crawler:
        """Fetches pages through the egress proxy, politely; with a browser where pages need one."""
        from workers.wiring.crawler import build_crawler

        return build_crawler(
            self.settings,
            egress=self.egress,
            fetcher=self.fetcher("crawl"),
            memory=self.page_memory,
            hosts=self.host_memory,
            figures=self.host_figures,
            at_close=self._closing.callback,
        )

    # -- text and vectors -----------------------------------------------------------------------

    @lazy
    def tokenizer(self) -> Tokenizer:
        """The embedding model's tokenizer."""
        from ingest.embed.tokens import load_tokenizer

        return load_tokenizer(None)

    @lazy
    def embedder(self) -> Embedder:
        """The configured embedder, behind its cache."""
        from ingest.embed.embed import make_embedder

        cache = self.settings.data_dir / "embedding-cache.sqlite"
        return make_embedder(self.settings.embed, self.settings.model_dir, cache, check_cancelled=check_cancelled)

    def embed(self, texts: Sequence[str], corpus: str) -> Embedded:
        """Vectors that may stand in the corpus's index, of its own model or an error."""
        return self.embedder.embed(texts, self._fingerprint_for(corpus))

    def _fingerprint_for(self, corpus: str) -> str:
        """The model that the corpus is bound to, or the one that it will be."""
        from ingest.embed.embed import fingerprint_of_corpus

        return self.reader(corpus).model_fingerprint or fingerprint_of_corpus(self.settings.embed, corpus)

    def embedding_reserve(self, texts: Sequence[str], corpus: str, ceilings: Ceilings) -> Spend:
        """What embedding the texts for a corpus may take at most, in the units that are under a ceiling.

        Tokens are only counted where that matters: for the local model they cost nothing.
        """
        from ingest.embed.cost import embedding_at_most

        settings = self.settings.embed.of_corpus(corpus)
        is_paid = settings.provider != "local" and ceilings.least("usd") is not None
        if not texts or (ceilings.least("tokens") is None and not is_paid):
            return Spend()
        return ceilings.capped(embedding_at_most(texts, settings, self.tokenizer)) or Spend()

    # -- index ----------------------------------------------------------------------------------

    @lazy
    def reranker(self) -> Reranker | None:
        """The configured reranker."""
        from workers.wiring.reranker import DailyBudget, build_reranker

        rerank = self.settings.rerank
        daily_budget = DailyBudget(rerank.usd_per_search, self.settings.budget.day_usd, utc_now)
        return build_reranker(rerank, lambda: self.fetcher("rerank"), daily_budget.take)

    @property
    def index_root(self) -> Path:
        """The folder that holds one folder per corpus."""
        return self.settings.data_dir / "index"

    def corpora(self) -> tuple[str, ...]:
        """The corpora that were ever written to."""
        from index.disk.layout import corpora

        return corpora(self.index_root)

    def reader(self, corpus: str) -> Reader:
        """The reader of a corpus, which may be empty."""
        with self.lock:
            if corpus not in self._readers:
                self._readers[corpus] = reader = self._new_reader(corpus)
                self._closing.callback(reader.close)
            return self._readers[corpus]

    def retrieval(self, corpus: str) -> RetrievalPort:
        """The configured engine's searches of a corpus."""
        from index.local.reader import IndexReader
        from index.local.retrieval_port import LocalRetrieval

        reader = self.reader(corpus)
        return LocalRetrieval(reader, corpus) if isinstance(reader, IndexReader) else reader

    def _new_reader(self, corpus: str) -> Reader:
        from index.local.reader import IndexReader
        from index.qdrant.reader import QdrantReader

        if self.settings.index.engine == "qdrant":
            return QdrantReader(self._collection(corpus), corpus, self.settings.query, self.reranker)
        return IndexReader(
            self.index_root,
            corpus,
            self.settings.query,
            self.reranker,
            on_fallback=count_fallback,
        )

    def _collection(self, corpus: str) -> Collection:
        """The Qdrant collection of a corpus: one for its reader and its writer."""
        from index.qdrant.open import open_collection

        with self.lock:
            if corpus not in self._collections:
                collection = open_collection(corpus, self.settings.qdrant)
                self._closing.callback(collection.close)
                self._collections[corpus] = collection
            return self._collections[corpus]

    def existing_reader(self, corpus: str) -> Reader:
        """The reader of a corpus that was written to.

        Raises:
            NotFound: it never was.
        """
        if not self._has_journal(corpus):
            raise NotFound(f"nothing was written to a corpus {corpus!r} yet")
        return self.reader(corpus)

    @contextmanager
    def writing(self, corpus: str) -> Iterator[Writer]:
        """The one writer of a corpus; given up when another process has taken the corpus over.

        Raises:
            Overloaded: it is being handed over to another process; come back in a moment.
            Unavailable: another process writes to it.
            Fenced: another took it over meanwhile; the next try begins with a new writer.
        """
        writer = self._writer(corpus)
        try:
            yield writer
        except Fenced:
            with self.lock:
                self._writers.pop(corpus, None)
            writer.close()
            raise
        finally:
            with self.lock:
                self._writers_used[corpus] -= 1

    def let_go_of_writers(self) -> None:
        """Close the writers of corpora that are wanted by another process, but for those in use."""
        with self.lock:
            held = tuple(self._writers)
        for corpus in held:
            if self._is_handed_over(corpus):
                self._close_writer(corpus)

    def _writer(self, corpus: str) -> Writer:
        """The writer, counted as in use."""
        if self._is_handed_over(corpus):
            self._close_writer(corpus)
            raise Overloaded(f"corpus {corpus} is being handed over to another process", HANDOVER_SECONDS)
        with self.lock:
            if corpus not in self._writers:
                self._writers[corpus] = self._new_writer(corpus)
            self._writers_used[corpus] += 1
            return self._writers[corpus]

    def _is_handed_over(self, corpus: str) -> bool:
        from index.disk.handover import is_wanted
        from index.disk.layout import CorpusLayout

        return is_wanted(CorpusLayout(self.index_root, corpus))

    def _close_writer(self, corpus: str) -> None:
        with self.lock:
            writer = None if self._writers_used[corpus] else self._writers.pop(corpus, None)
        if writer is not None:
            writer.close()

    def _new_writer(self, corpus: str) -> Writer:
        settings = self.settings.index
        if settings.engine == "qdrant":
            from index.qdrant.writer import QdrantWriter

            return QdrantWriter(self.index_root, corpus, self._collection(corpus))
        from index.local.write_policy import WritePolicy
        from index.local.writer import IndexWriter

        policy = WritePolicy(keep_generations=settings.keep_generations)
        return IndexWriter(self.index_root, corpus, policy, on_fallback=count_fallback)

    @lazy
    def shipper(self) -> Shipper:
        """Copies published snapshots to the object store, where one is configured."""
        index = self.settings.index
        shipper = Shipper(self.index_root, index.object_store_url, self.settings.object_store, index.keep_generations)
        self._closing.callback(shipper.close)
        return shipper

    def close(self) -> None:
        """Close what was opened, the latest first."""
        with self.lock:
            for writer in self._writers.values():
                self._closing.callback(writer.close)
        self._closing.close()
