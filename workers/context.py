"""The wiring: every part that a process needs, built once and only when it is first needed.

A `Context` is made per process, after any fork, and decides nothing. Expensive modules are imported when their member
is built: a command that lists runs needs neither the broker's client nor a model.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from tokenizers import Tokenizer

from sluice.contracts.gate import PolicyState
from sluice.contracts.learning.control import FlagName
from sluice.disk.cache import MOST_BYTES, FileCache
from sluice.evaluation.chat_endpoint import ChatEndpoint
from sluice.evaluation.ragas.bridge import RagasBridge
from sluice.gate.directives import CrawlLimits
from sluice.gate.profile import Profile, load_former_profiles, load_profiles
from sluice.gate.veto import policy_state
from sluice.graph.servers.server import GraphServer
from sluice.index.search.reranker import Reranker
from sluice.ingest.egress.crawl_account import current_egress_grant
from sluice.ingest.egress.proxy import EgressProxy
from sluice.ingest.embed.embed import BreakingEmbedder, make_embedder
from sluice.ingest.embed.port import Embedder, Vectors
from sluice.ingest.embed.tokens import count_tokens, shared_tokenizer
from sluice.ingest.settings import Purpose
from sluice.ledger.known_pages import PageMemory
from sluice.ledger.ledger import Ledger
from sluice.ledger.stage_minutes import FLUSH_SECONDS
from sluice.memory.find import SearchIndex
from sluice.memory.ports import AskModel, SharedJournals
from sluice.trust.private.patterns import build_finder
from sluice.workers.runtime.backpressure import Admission
from sluice.workers.runtime.blob_store import BlobStore, TransientPages
from sluice.workers.runtime.claims import check_cancelled
from sluice.workers.runtime.flags import FlagReader
from sluice.workers.runtime.observers import count_circuit_opened, log_refusal, utc_now
from sluice.workers.runtime.shared_blobs import SharedPages, open_blobs
from sluice.workers.setting_names import read_flags
from sluice.workers.settings import Settings
from sluice.workers.wiring.corpora import Closable, CorpusReaders, CorpusTruth, CorpusWriters, PerCorpus
from sluice.workers.wiring.graphs import GraphArms, build_graph_server
from sluice.workers.wiring.index_owner import IndexOwner, IndexPuller
from sluice.workers.wiring.memories import MemoryModel, ProjectMemories
from sluice.workers.wiring.models import (
    DailyBudget,
    EmbeddingService,
    GuardedInspection,
    build_inspector,
    build_reranker,
)
from sluice.workers.wiring.steering import Doubts, GateModels, Priors, StandingDefences

if TYPE_CHECKING:
    import httpx2

    from sluice.contracts import ingest
    from sluice.disk.object_store import ObjectStore
    from sluice.index.qdrant.server import ServerCollection
    from sluice.ingest.crawl.crawler import Crawler
    from sluice.ingest.http.fetch import Fetcher
    from sluice.ingest.politeness.hosts import HostStats
    from sluice.memory.memory import Memory
    from sluice.workers.broker.transport import Transport
    from sluice.workers.transfer import Artefacts

Built = TypeVar("Built")

MOST_USD_AT_ONCE = 1.0
"""Most that one round of judging may cost where the day has no ceiling, in USD."""


SomeClosable = TypeVar("SomeClosable", bound=Closable)


class lazy(Generic[Built]):  # noqa: N801 - used as a decorator
    """A property that is built at its first use and kept, however many threads need it at once."""

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
    """The parts that the handlers and services of one process work with. Safe across its threads."""

    def __init__(self, settings: Settings, *, publish_patience_seconds: float | None = None, threads: int = 0) -> None:
        """`publish_patience_seconds` limits publishing while a caller waits; the ledger has the event. `threads` of
        this process work at once."""
        self.settings, self._publish_patience_seconds, self._threads = settings, publish_patience_seconds, threads
        self.append_again: Callable[[Context], object] = lambda context: None
        """Handles again what another owner of the index did not live to ship; set by whoever may take the index over.
        Without it corpora that lack records are refused to writers."""
        self.lock = threading.RLock()
        self._fetchers: dict[Purpose, Fetcher] = {}
        self._closing = ExitStack()
        self._caches: list[FileCache] = []

    def close(self) -> None:
        """Close every part that was opened, the latest first."""
        self._closing.close()

    def opened(self, part: SomeClosable) -> SomeClosable:
        """Return `part`, which this context closes at its end."""
        self._closing.callback(part.close)
        return part

    # -- state --------------------------------------------------------------------------------

    @lazy
    def ledger(self) -> Ledger:
        """The record of runs and events."""
        ledger = self.opened(Ledger(self.settings.ledger_location, threads=self._threads))
        stopping = threading.Event()

        def flush_until_closed() -> None:
            while not stopping.wait(FLUSH_SECONDS):
                ledger.stage_minutes.flush()
                for cache in self._caches:
                    cache.sweep_if_due()

        threading.Thread(target=flush_until_closed, name="stage-minutes", daemon=True).start()
        self._closing.callback(ledger.stage_minutes.flush)
        self._closing.callback(stopping.set)
        return ledger

    @lazy
    def blobs(self) -> BlobStore:
        """Bodies too large for a message."""
        return open_blobs(self.settings.data_dir, self.object_store, self._cache("blobs"))

    def _cache(self, name: str, most_bytes: int = MOST_BYTES) -> FileCache:
        """Return a folder of copies of what the object store has; what is old there goes while this process works."""
        self._caches.append(cache := FileCache(self.settings.data_dir / "cache" / name, most_bytes))
        return cache

    @lazy
    def transient_pages(self) -> TransientPages:
        """Raw pages of which no copy may be kept once they are read."""
        store = self.object_store
        return TransientPages(self.settings.data_dir / "unarchived") if store is None else SharedPages(store)

    @lazy
    def artefacts(self) -> Artefacts:
        """The files of exports and uploads of corpora."""
        from sluice.workers.transfer import Artefacts

        cache = self._cache("artefacts", sys.maxsize)  # one that is read must stay
        return Artefacts(self.settings.data_dir / "artefacts", self.object_store, cache)

    @lazy
    def object_store(self) -> ObjectStore | None:
        """The object store that the machines of this instance share; None where it is of one machine."""
        from sluice.disk.object_store import open_store

        url = self.settings.object_store.url
        return open_store(url, self.settings.object_store) if url else None

    @lazy
    def transport(self) -> Transport:
        """The connection to the broker's queues."""
        from sluice.workers.broker.transport import Transport

        return self.opened(Transport(self.settings, publish_patience_seconds=self._publish_patience_seconds))

    @lazy
    def admission(self) -> Admission:
        """Admits or refuses a further request, by the room in the queues."""
        return Admission(self.ledger, self.settings.delivery)

    # -- gate ---------------------------------------------------------------------------------

    @lazy
    def flags(self) -> FlagReader:
        """The feature flags as they stand. The owner's settings hold some off."""
        reasons: dict[FlagName, str] = {"search": self.policy.search_reason, "crawl": self.policy.crawl_reason}
        reasons["memory"] = "" if self.settings.memory.in_gate else "memory.in_gate is false"
        reasons["graph"] = self.settings.graph_hindrance
        held_off = {name: reason for name, reason in reasons.items() if reason}
        return FlagReader(self.ledger.flags.all, read_flags(os.environ), held_off)

    @lazy
    def profiles(self) -> Mapping[str, Profile]:
        """The gate's profiles by name."""
        return load_profiles(self.settings.gate.profiles_dir)

    @lazy
    def former_profiles(self) -> Mapping[str, Profile]:
        """The previous version of each profile that has one. It decides while the flag `gate_weights` is off."""
        return load_former_profiles(self.settings.gate.profiles_dir)

    @lazy
    def standing_defences(self) -> StandingDefences:
        """The gate's steps back that are in force."""
        return StandingDefences(self.ledger, self.blobs, self.settings.defence)

    @lazy
    def priors(self) -> Priors:
        """The shifts of the corpora's confidence by their own outcomes."""
        return Priors(self.ledger)

    @lazy
    def doubts(self) -> Doubts:
        """What callers say against passages, by corpus."""
        return Doubts(self.ledger)

    @lazy
    def gate_models(self) -> GateModels:
        """Learned models of the gate, by the names that decisions record."""
        return GateModels(self.blobs)

    @lazy
    def policy(self) -> PolicyState:
        """The owner's permissions for search and crawling."""
        search, crawl = self.settings.search, self.settings.crawl
        return policy_state(
            search_enabled=search.enabled,
            search_providers=len(search.providers),
            crawl_enabled=crawl.enabled,
            egress_allowed=self.settings.egress.policy != "deny",
        )

    @lazy
    def crawl_limits(self) -> CrawlLimits:
        """Limits of a run by the settings, and the most that one search may take, with every fail-over."""
        from sluice.ingest.search.providers import search_at_most

        search, crawl, most = self.settings.search, self.settings.crawl, search_at_most(self.settings.search)
        fetches = 1 if crawl.render == "never" else 2  # over HTTP, and again in the browser
        return CrawlLimits(
            max_pages=crawl.max_pages,
            max_depth=crawl.max_depth,
            max_bytes=crawl.run_bytes,
            page_bytes=crawl.max_page_bytes,
            page_milliseconds=fetches * crawl.page_timeout_seconds * 1_000,
            search_top_k=search.top_k,
            search_usd=most.usd,
            search_milliseconds=most.milliseconds,
            locale=search.locale,
            render=crawl.render,
        )

    # -- the outside world --------------------------------------------------------------------

    @lazy
    def egress(self) -> EgressProxy:
        """The egress proxy, started: the one way out of this process. Under the policy `deny` it refuses everything."""
        proxy = EgressProxy(self.settings.egress, on_refusal=log_refusal)
        proxy.start()
        self._closing.callback(proxy.stop)
        return proxy

    def fetcher(self, purpose: Purpose) -> Fetcher:
        """Return the HTTP client through the egress proxy for one purpose."""
        from sluice.ingest.http.fetch import Fetcher

        with self.lock:
            if purpose not in self._fetchers:
                proxy_url, user_agent = self.egress.url_for(purpose), self.settings.crawl.agent
                self._fetchers[purpose] = Fetcher(
                    proxy_url, user_agent=user_agent, check_cancelled=check_cancelled, account=current_egress_grant
                )
            return self._fetchers[purpose]

    @lazy
    def search_web(self) -> Callable[[ingest.SearchDirected], ingest.SearchCompleted]:
        """Live search by the configured providers, in order of fail-over. Raises what `ingest.search.search` raises."""
        from sluice.ingest.search.providers import build_providers
        from sluice.ingest.search.search import BrokerEmptySearches, BrokerQuota, search

        settings, broker_url, instance = self.settings.search, self.settings.broker_location, self.settings.instance
        providers = build_providers(
            settings,
            fetcher=self.fetcher("search"),
            proxy_url=self.egress.url_for("search"),
            clock=utc_now,
            on_breaker_open=lambda: count_circuit_opened("provider"),
        )
        return partial(
            search,
            providers=providers,
            quota=self.opened(BrokerQuota(broker_url, key_prefix=instance)),
            settings=settings,
            clock=utc_now,
            check_cancelled=check_cancelled,
            empty=self.opened(BrokerEmptySearches(broker_url, key_prefix=instance)),
        )

    @lazy
    def page_memory(self) -> PageMemory:
        """Facts about each page read before. A page that another version, chunking or inspector read is read anew."""
        read_by = f"{version('sluice')} {self.settings.chunk.model_dump_json()} {self.inspector.version}"
        fingerprint = hashlib.sha256(read_by.encode()).hexdigest()[:16]
        return self.ledger.page_memory(read_as=fingerprint, is_there=self.readers.exists)

    @lazy
    def host_stats(self) -> HostStats:
        """Counters of the crawl's requests to each host, kept in the broker."""
        from sluice.ingest.politeness.hosts import HostStats

        return self.opened(HostStats(self.settings.broker_location, clock=utc_now, key_prefix=self.settings.instance))

    @lazy
    def crawler(self) -> Crawler:
        """Fetches pages through the egress proxy, politely; with a browser where pages need one."""
        from sluice.workers.wiring.crawler import build_crawler

        fetcher, memory, doubts = self.fetcher("crawl"), self.page_memory, self.doubts.pages
        return build_crawler(self.settings, self.egress, fetcher, memory, self.host_stats, doubts, self._closing)

    # -- text and vectors -----------------------------------------------------------------------

    @lazy
    def tokenizer(self) -> Tokenizer:
        """The embedding model's tokenizer."""
        return shared_tokenizer()

    @lazy
    def embedder(self) -> Embedder:
        """The configured embedder, behind its cache."""
        return self._make_embedder(for_questions=False)

    @lazy
    def question_embedder(self) -> Embedder:
        """The same models for callers that wait for an answer; if all are local, the same embedder."""
        return self._make_embedder(for_questions=True) if self.settings.embed.uses_endpoint else self.embedder

    def _make_embedder(self, *, for_questions: bool) -> Embedder:
        return make_embedder(
            self.settings.embed,
            self.settings.model_dir,
            self.settings.data_dir / "embedding-cache.sqlite",
            for_questions=for_questions,
            check_cancelled=check_cancelled,
            endpoints=self.embedding_endpoints,
        )

    @lazy
    def embedding_endpoints(self) -> list[BreakingEmbedder]:
        """The embedding endpoints of this process, each behind its circuit breaker."""
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
            hide=self.hide,
        )

    def hide(self, text: str) -> str:
        """Mask the parts of a text that no outside service may see."""
        from sluice.trust.private.mask import hide

        return hide(text, self.settings.trust.mask, build_finder(self.settings.trust))

    @lazy
    def judge(self) -> ChatEndpoint | None:
        """The language model that judges; None where the settings name none. Opens nothing before its first request.

        Its requests obey the rules of egress, for the purpose `judge`.
        """
        settings = self.settings.judge

        def connect() -> httpx2.Client:
            import httpx2

            return httpx2.Client(proxy=self.egress.url_for("judge"), trust_env=False, timeout=settings.timeout_seconds)

        return ChatEndpoint(settings, connect, self.hide) if settings.model is not None else None

    @lazy
    def ragas(self) -> RagasBridge:
        """Judges whether passages support the answers: by the package `ragas` if it and a judge are there, else by
        comparing sentences. Outgoing text is masked."""
        from sluice.evaluation.ragas.environment import FOLDER, AnsweredQuestion, RagasScore, find_python, judge_answers

        settings, enabled = self.settings, self.flags.enabled("ragas")
        python = find_python(settings.data_dir / FOLDER)

        def embed(texts: Sequence[str]) -> Vectors:
            return self.question_embedder.embed(texts).vectors

        if python is None or settings.judge.model is None:
            return RagasBridge(embed, enabled=enabled)

        def judge(answers: Sequence[AnsweredQuestion]) -> Sequence[RagasScore]:
            hidden = [
                AnsweredQuestion(self.hide(one.query), tuple(map(self.hide, one.passages)), self.hide(one.response))
                for one in answers
            ]
            day_usd, price = settings.budget.day_usd, max(settings.judge.usd_per_million_tokens, 0.01)
            most_tokens = int((MOST_USD_AT_ONCE if day_usd is None else day_usd) / price * 1e6)
            return judge_answers(python, settings.judge, self.egress.url_for("judge"), hidden, most_tokens).scores

        return RagasBridge(embed, judge, enabled=enabled)

    @lazy
    def inspector(self) -> GuardedInspection:
        """Looks for attacks and private data in ingested documents."""
        return build_inspector(self.settings, lambda: self.embedder)

    # -- memory of agents -----------------------------------------------------------------------

    @lazy
    def memory_model(self) -> MemoryModel:
        """The language model that distils learnings, where the settings enable it, within a run's budget."""
        return MemoryModel(self.judge if self.settings.memory.distil_by_model else None, self.ledger)

    @lazy
    def memories(self) -> ProjectMemories:
        """The memory of each project as workers use it: they derive learnings, and search by themselves."""
        return self.open_memories(ask=self.memory_model.ask if self.memory_model.is_there else None)

    def open_memories(
        self, search: Callable[[str], SearchIndex] | None = None, ask: AskModel | None = None, *, derives: bool = True
    ) -> ProjectMemories:
        """Return each project's memory, searched by the index that `search` gives for it. Opens and loads nothing yet.

        `derives`: the next request of a memory derives the learnings of new iterations; else a worker does so.
        """

        def open_memory(folder: Path, project: str, shared: SharedJournals | None) -> Memory:
            from sluice.memory.embedded.guarded import sanitise_with_trust
            from sluice.memory.learning.deduplication import judge_by
            from sluice.memory.memory import Memory

            return Memory(
                folder,
                project,
                sanitise=sanitise_with_trust,
                search=search(project) if search else None,
                judge=judge_by(ask) if ask else None,
                ask=ask,
                count_tokens=lambda text: count_tokens(text, self.tokenizer),
                derives=derives,
                shared=shared,
            )

        place = "cache/memory" if self.object_store else "memory"
        return ProjectMemories(self.settings.data_dir / place, open_memory, self.object_store)

    # -- graph ----------------------------------------------------------------------------------

    @lazy
    def graphs(self) -> GraphArms:
        """The published graph of each corpus."""
        return GraphArms(self.settings.graph_root)

    @lazy
    def graph_server(self) -> GraphServer | None:
        """The Neo4j or Memgraph of the settings."""
        server = build_graph_server(self.settings.graph, self.settings.egress)
        return self.opened(server) if server is not None else None

    # -- index ----------------------------------------------------------------------------------

    @lazy
    def reranker(self) -> Reranker | None:
        """The configured reranker."""
        rerank = self.settings.rerank
        daily_budget = DailyBudget(rerank.usd_per_search, self.settings.budget.day_usd, utc_now)
        return build_reranker(rerank, lambda: self.fetcher("rerank"), daily_budget.take, self.hide)

    @lazy
    def _collections(self) -> PerCorpus[ServerCollection]:
        """The Qdrant collection of each corpus: one for its reader and its writer."""
        from sluice.index.qdrant.server import open_collection

        return self.opened(PerCorpus(lambda corpus: open_collection(corpus, self.settings.qdrant)))

    @lazy
    def truth(self) -> CorpusTruth:
        """Finds corpora whose journal was lost."""
        owner = self.index_owner
        return CorpusTruth(
            *(self.settings, self.ledger.written_offsets, self.ledger.corpora.one), is_owner=lambda: owner.is_ready
        )

    @lazy
    def readers(self) -> CorpusReaders:
        """The reader of each corpus."""
        searching, collections = self.graphs.searching, self._collections
        return self.opened(
            CorpusReaders(
                *(self.settings, collections, lambda: self.reranker, searching, lambda: self.truth),
                doubts=lambda corpus: self.doubts.passages(corpus),
                store=self.object_store,
            )
        )

    @lazy
    def writers(self) -> CorpusWriters:
        """The writer of each corpus that this process writes to."""
        wired = self.settings, self._collections, lambda: self.truth
        owner, held = self.index_owner, lambda: self.ledger.is_backed_up_now()
        return self.opened(CorpusWriters(*wired, is_held=held, check_owner=owner.check, ship=owner.publish))

    @lazy
    def index_owner(self) -> IndexOwner:
        """The right to write the corpora, which one machine of an instance has."""

        def handle_again() -> None:
            from sluice.workers.wiring.shared_form import put_up

            if self.object_store is not None:
                put_up(self.settings.data_dir, self.object_store)
            self.append_again(self)

        def close_writers() -> None:
            self.writers.close_wanted(every=True)

        return self.opened(IndexOwner(self.settings, lambda: self.ledger.index, handle_again, close_writers))

    @lazy
    def index_puller(self) -> IndexPuller:
        """Brings published generations to this machine while another writes the corpora."""
        return IndexPuller(self.settings, lambda: self.ledger.index, self.graphs, lambda: self.ledger.graph)
