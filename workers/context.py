"""The wiring: what a process needs, built once and only when it is first asked for.

A `Context` is made per process, after any fork. Nothing here decides anything. What a member needs is imported when it
is built: a command that lists runs needs neither the broker's client nor a metric.
"""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING, Generic, TypeVar

from sluice.ledger.ledger import Ledger
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.settings import Settings
from sluice.workers.wiring.corpora import CorpusReaders, CorpusWriters, QdrantCollections
from sluice.workers.wiring.embedding import EmbeddingService

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenizers import Tokenizer

    from sluice.evaluation.chat_endpoint import ChatEndpoint
    from sluice.evaluation.ragas.bridge import RagasBridge
    from sluice.gate.directives import CrawlLimits
    from sluice.gate.profile import Profile
    from sluice.graph.servers.server import GraphServer
    from sluice.index.search.rerank.base import Reranker
    from sluice.ingest.crawl.crawler import Crawler
    from sluice.ingest.egress.proxy import EgressProxy
    from sluice.ingest.embed.embed import BreakingEmbedder
    from sluice.ingest.embed.port import Embedder, Vectors
    from sluice.ingest.http.fetch import Fetcher
    from sluice.ingest.politeness.hosts import HostMemory, HostStats
    from sluice.ingest.settings import Purpose
    from sluice.ledger.known_pages import PageMemory
    from sluice.memory.find import SearchIndex
    from sluice.memory.ports import AskModel, Sanitise
    from sluice.workers.broker.cancellation import Cancellations
    from sluice.workers.broker.transport import Transport
    from sluice.workers.runtime.backpressure import Admission
    from sluice.workers.runtime.flags import FlagReader
    from sluice.workers.runtime.gate_models import GateModels
    from sluice.workers.runtime.standing_defences import StandingDefences
    from sluice.workers.runtime.transient_pages import TransientPages
    from sluice.workers.wiring.graph.graphs import GraphArms
    from sluice.workers.wiring.inspector import GuardedInspection
    from sluice.workers.wiring.memory.projects import MemoryModel, ProjectMemories
    from sluice.workers.wiring.searcher import Searcher
    from sluice.workers.wiring.snapshot_upload import Shipper

Built = TypeVar("Built")


class lazy(Generic[Built]):  # noqa: N801 - used as a decorator
    """A property that is built at its first use and kept, however many threads ask for it at once."""

    def __init__(self, build: Callable[[Context], Built]) -> None:
        self.build = build
        self.__doc__ = build.__doc__

    def __set_name__(self, owner: type[Context], name: str) -> None:
        self._name = name

    def __get__(self, context: Context, owner: type[Context]) -> Built:
        with context.lock:
            if self._name not in context.__dict__:
                context.__dict__[self._name] = self.build(context)
            built: Built = context.__dict__[self._name]
            return built


class Context:
    """What the handlers and services of one process work with. Safe across its threads."""

    def __init__(self, settings: Settings, *, publish_patience_seconds: float | None = None) -> None:
        """`publish_patience_seconds` limits publishing for whoever has somebody waiting; the ledger has the event."""
        self.settings = settings
        self._publish_patience_seconds = publish_patience_seconds
        self.lock = threading.RLock()
        self._fetchers: dict[Purpose, Fetcher] = {}
        self._closing = ExitStack()

    def close(self) -> None:
        """Close what was opened, the latest first."""
        self._closing.close()

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
        from sluice.workers.runtime.transient_pages import TransientPages

        return TransientPages(self.settings.data_dir / "unarchived")

    @lazy
    def transport(self) -> Transport:
        """The broker."""
        from sluice.workers.broker.transport import Transport

        transport = Transport(self.settings, publish_patience_seconds=self._publish_patience_seconds)
        self._closing.callback(transport.close)
        return transport

    @lazy
    def cancellations(self) -> Cancellations:
        """Notices of cancelled runs."""
        from sluice.workers.broker.cancellation import Cancellations

        cancellations = Cancellations(self.settings)
        self._closing.callback(cancellations.close)
        return cancellations

    @lazy
    def admission(self) -> Admission:
        """Whether there is room for one more request."""
        from sluice.workers.runtime.backpressure import Admission

        return Admission(self.ledger, self.settings.delivery)

    # -- gate ---------------------------------------------------------------------------------

    @lazy
    def flags(self) -> FlagReader:
        """The feature flags as they stand."""
        from sluice.workers.feature_variables import read_environment
        from sluice.workers.runtime.flags import FlagReader
        from sluice.workers.wiring.limits import flag_policy

        return FlagReader(self.ledger.flags.all, read_environment(os.environ), flag_policy(self.settings))

    @lazy
    def profiles(self) -> Mapping[str, Profile]:
        """The gate's profiles by name."""
        from sluice.gate.profile import load_profiles

        return load_profiles(self.settings.gate.profiles_dir)

    @lazy
    def standing_defences(self) -> StandingDefences:
        """Which steps back of the gate stand."""
        from sluice.workers.runtime.standing_defences import StandingDefences

        return StandingDefences(self.ledger, self.blobs, self.settings.defence)

    @lazy
    def former_profiles(self) -> Mapping[str, Profile]:
        """The version before, of each profile that has one: what decides while the flag `gate_weights` is off."""
        from sluice.gate.profile import load_former_profiles

        return load_former_profiles(self.settings.gate.profiles_dir)

    @lazy
    def gate_models(self) -> GateModels:
        """Learned models of the gate, by the names that decisions record."""
        from sluice.workers.runtime.gate_models import GateModels

        return GateModels(self.blobs)

    @lazy
    def crawl_limits(self) -> CrawlLimits:
        """How far a run may go by the settings."""
        from sluice.workers.wiring.limits import crawl_limits_of

        return crawl_limits_of(self.settings)

    # -- the outside world --------------------------------------------------------------------

    @lazy
    def egress(self) -> EgressProxy:
        """The one way out of this process, started. Where the policy is `deny` it refuses everything."""
        from sluice.ingest.egress.proxy import EgressProxy
        from sluice.workers.wiring.observers import log_refusal

        proxy = EgressProxy(self.settings.egress, on_refusal=log_refusal)
        proxy.start()
        self._closing.callback(proxy.stop)
        return proxy

    def fetcher(self, purpose: Purpose) -> Fetcher:
        """HTTP through the egress proxy, for one purpose."""
        from sluice.ingest.egress.crawl_account import current_egress_grant
        from sluice.ingest.http.fetch import Fetcher
        from sluice.workers.runtime.heartbeat import check_cancelled

        with self.lock:
            if purpose not in self._fetchers:
                proxy_url, user_agent = self.egress.url_for(purpose), self.settings.crawl.agent
                self._fetchers[purpose] = Fetcher(
                    proxy_url, user_agent=user_agent, check_cancelled=check_cancelled, account=current_egress_grant
                )
            return self._fetchers[purpose]

    @lazy
    def searcher(self) -> Searcher:
        """Live search by the configured providers."""
        from sluice.ingest.search.build import build_providers
        from sluice.ingest.search.quota import BrokerEmptySearches, BrokerQuota
        from sluice.workers.wiring.observers import count_circuit_opened, utc_now
        from sluice.workers.wiring.searcher import Searcher

        search, broker_url, instance = self.settings.search, self.settings.broker_location, self.settings.instance
        providers = build_providers(
            search,
            fetcher=self.fetcher("search"),
            proxy_url=self.egress.url_for("search"),
            clock=utc_now,
            on_breaker_open=lambda: count_circuit_opened("provider"),
        )
        quota = BrokerQuota(broker_url, key_prefix=instance)
        self._closing.callback(quota.close)
        empty = BrokerEmptySearches(broker_url, key_prefix=instance)
        self._closing.callback(empty.close)
        return Searcher(search, providers, quota, empty)

    @lazy
    def page_memory(self) -> PageMemory:
        """What was read of each page, by which to know it again."""
        return self.ledger.page_memory(read_as=self._reading_fingerprint, is_there=self.readers.exists)

    @property
    def _reading_fingerprint(self) -> str:
        """Stands for all that decides what becomes of a page: one that was read otherwise is read again."""
        text = f"{version('sluice')} {self.settings.chunk.model_dump_json()} {self.inspector.version}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @lazy
    def host_stats(self) -> HostStats:
        """What the crawl did to each host, counted in the broker."""
        from sluice.ingest.politeness.hosts import HostStats
        from sluice.workers.wiring.observers import utc_now

        stats = HostStats(self.settings.broker_location, clock=utc_now, key_prefix=self.settings.instance)
        self._closing.callback(stats.close)
        return stats

    @lazy
    def host_memory(self) -> HostMemory:
        """Which hosts build their pages by scripts, learned in the broker."""
        from sluice.ingest.politeness.hosts import HostMemory

        memory = HostMemory(self.settings.broker_location, key_prefix=self.settings.instance)
        self._closing.callback(memory.close)
        return memory

    @lazy
    def crawler(self) -> Crawler:
        """Fetches pages through the egress proxy, politely; with a browser where pages need one."""
        from sluice.workers.wiring.crawler import build_crawler

        return build_crawler(
            self.settings,
            egress=self.egress,
            fetcher=self.fetcher("crawl"),
            memory=self.page_memory,
            hosts=self.host_memory,
            host_stats=self.host_stats,
            at_close=self._closing.callback,
        )

    # -- text and vectors -----------------------------------------------------------------------

    @lazy
    def tokenizer(self) -> Tokenizer:
        """The embedding model's tokenizer."""
        from sluice.ingest.embed.tokens import shared_tokenizer

        return shared_tokenizer()

    @lazy
    def embedder(self) -> Embedder:
        """The configured embedder, behind its cache."""
        from sluice.ingest.embed.embed import make_embedder
        from sluice.workers.runtime.heartbeat import check_cancelled

        cache = self.settings.data_dir / "embedding-cache.sqlite"
        embed, models = self.settings.embed, self.settings.model_dir
        return make_embedder(embed, models, cache, check_cancelled=check_cancelled, endpoints=self.embedding_endpoints)

    @lazy
    def question_embedder(self) -> Embedder:
        """The same models for those who wait for an answer; where all are local, the same embedder."""
        from sluice.ingest.embed.embed import make_embedder

        embed = self.settings.embed
        if not embed.uses_endpoint:
            return self.embedder
        cache = self.settings.data_dir / "embedding-cache.sqlite"
        models, endpoints = self.settings.model_dir, self.embedding_endpoints
        return make_embedder(embed, models, cache, for_questions=True, endpoints=endpoints)

    @lazy
    def embedding_endpoints(self) -> list[BreakingEmbedder]:
        """The embedding endpoints that this process asks, each behind its circuit breaker."""
        return []

    @lazy
    def embedding(self) -> EmbeddingService:
        """The embedder as corpora use it: each by its own model."""
        return EmbeddingService(
            self.settings.embed,
            embedder=lambda: self.embedder,
            question_embedder=lambda: self.question_embedder,
            tokenizer=lambda: self.tokenizer,
            model_of_corpus=lambda corpus: self.readers.reader(corpus).model_fingerprint,
            hide=self._hide,
        )

    @lazy
    def _hide(self) -> Callable[[str], str]:
        """Masks in a text what no outside service may see."""
        from sluice.trust.private.finder import build_finder
        from sluice.trust.private.mask import hide

        trust = self.settings.trust
        return lambda text: hide(text, trust.mask, build_finder(trust))

    @lazy
    def judge(self) -> ChatEndpoint | None:
        """The language model that judges; None where the settings name none."""
        from sluice.workers.wiring.judge import build_judge

        return build_judge(self.settings.judge, lambda: self.egress, self._hide)

    @lazy
    def ragas(self) -> RagasBridge:
        """Judges answers by what they were made from."""
        from sluice.workers.wiring.judge import build_ragas

        def embed(texts: Sequence[str]) -> Vectors:
            return self.question_embedder.embed(texts).vectors

        return build_ragas(self.settings, embed, lambda: self.egress, self._hide, enabled=self.flags.enabled("ragas"))

    @lazy
    def inspector(self) -> GuardedInspection:
        """Looks for attacks and private data in what is ingested."""
        from sluice.workers.wiring.inspector import build_inspector

        return build_inspector(self.settings, lambda: self.embedder)

    # -- memory of agents -----------------------------------------------------------------------

    @lazy
    def memory_sanitise(self) -> Sanitise:
        """Takes out of a text what would command the agent that reads it, and masks private data."""
        from sluice.memory.embedded.guarded import sanitise_with_trust

        return sanitise_with_trust

    @lazy
    def memory_model(self) -> MemoryModel:
        """The language model that distils learnings, where the settings want it, within a run's budget."""
        from sluice.workers.wiring.memory.projects import MemoryModel

        return MemoryModel(self.judge if self.settings.memory.distil_by_model else None, self.ledger)

    @lazy
    def memories(self) -> ProjectMemories:
        """The memory of each project, as workers have it: they derive, and search by themselves."""
        return self.open_memories(ask=self.memory_model.ask if self.memory_model.is_there else None)

    def open_memories(
        self,
        search: Callable[[str], SearchIndex] | None = None,
        ask: AskModel | None = None,
        *,
        derives: bool = True,
    ) -> ProjectMemories:
        """The memory of each project, searched by the index that `search` gives for it."""
        from sluice.ingest.embed.tokens import count_tokens
        from sluice.workers.wiring.memory.projects import build_memories

        return build_memories(
            self.settings,
            sanitise=self.memory_sanitise,
            count_tokens=lambda text: count_tokens(text, self.tokenizer),
            search=search,
            ask=ask,
            derives=derives,
        )

    # -- graph ----------------------------------------------------------------------------------

    @lazy
    def graphs(self) -> GraphArms:
        """The published graph of each corpus."""
        from sluice.workers.wiring.graph.graphs import GraphArms

        return GraphArms(self.settings.graph_root)

    @lazy
    def graph_server(self) -> GraphServer | None:
        """The Neo4j or Memgraph of the settings."""
        from sluice.workers.wiring.graph.graphs import build_graph_server

        server = build_graph_server(self.settings.graph, self.settings.egress)
        if server is not None:
            self._closing.callback(server.close)
        return server

    # -- index ----------------------------------------------------------------------------------

    @lazy
    def reranker(self) -> Reranker | None:
        """The configured reranker."""
        from sluice.workers.wiring.observers import utc_now
        from sluice.workers.wiring.reranker import DailyBudget, build_reranker

        rerank = self.settings.rerank
        daily_budget = DailyBudget(rerank.usd_per_search, self.settings.budget.day_usd, utc_now)
        return build_reranker(rerank, lambda: self.fetcher("rerank"), daily_budget.take, self._hide)

    @lazy
    def _collections(self) -> QdrantCollections:
        collections = QdrantCollections(self.settings)
        self._closing.callback(collections.close)
        return collections

    @lazy
    def readers(self) -> CorpusReaders:
        """The reader of each corpus."""
        searching = self.graphs.searching
        readers = CorpusReaders(self.settings, self._collections, reranker=lambda: self.reranker, graph=searching)
        self._closing.callback(readers.close)
        return readers

    @lazy
    def writers(self) -> CorpusWriters:
        """The writer of each corpus that this process writes to."""
        writers = CorpusWriters(self.settings, self._collections)
        self._closing.callback(writers.close)
        return writers

    @lazy
    def shipper(self) -> Shipper:
        """Copies published snapshots to the object store, where one is configured."""
        from sluice.workers.wiring.snapshot_upload import Shipper

        index = self.settings.index
        shipper = Shipper(
            self.settings.index_root, index.object_store_url, self.settings.object_store, index.keep_generations
        )
        self._closing.callback(shipper.close)
        return shipper
