"""Runs, as far as a caller may see them, with traces and explanations; and waiting for a run.

An announcement wakes waiting requests. It is a hint: they look into the ledger first, and again now and then, so a lost
announcement costs as long as the run has been silent, up to `LONGEST_PATIENCE_SECONDS`, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar, cast

import redis.asyncio
import structlog
from pydantic import Field
from redis.exceptions import RedisError

from sluice.contracts.api import PromptView, RunView
from sluice.contracts.base import Value, is_none
from sluice.contracts.errors import Corrupted, NotFound, Overloaded
from sluice.contracts.event import Body
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.contracts.ingest import EgressRefused
from sluice.contracts.operations.timeline import Timeline
from sluice.gate.decide import explain, needs_model
from sluice.gate.learned.model import GateModel
from sluice.gate.profile import Profile
from sluice.ledger.ledger import Ledger, RunSummary
from sluice.ledger.timeline.build import Detail, build_timeline
from sluice.otel.spans import SpanStore
from sluice.otel.start import RETENTION_HOURS
from sluice.trust.prompts.build import templates
from sluice.workers.broker.keys import Keys
from sluice.workers.context import Context
from sluice.workers.service.callers import Caller
from sluice.workers.settings import Settings
from sluice.workers.wiring.plan_summary import summarise

__all__ = ["RunSummary", "Runs"]

log = structlog.get_logger(__name__)

PATIENCE_SECONDS, LONGEST_PATIENCE_SECONDS = 0.5, 4.0
MOST_FOLLOWED = 64
"""Runs that one API key may follow or wait for at once: each is looked for in the ledger now and then."""
TRACE_ID = re.compile(r"[0-9a-f]{32}")
SomeBody = TypeVar("SomeBody", bound=Body)
SomeSpans = TypeVar("SomeSpans")


class Runs:
    """Reads the runs of one instance."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def one(self, run_id: str, caller: Caller) -> RunView:
        """Return everything about a run. Raises `NotFound` if there is none, or it is not the caller's to see."""
        run = self._ledger.run(run_id)
        if not caller.may_see(run.corpus):
            raise NotFound(f"no run {run_id}")
        return self._summarised(run)

    def ended(self, run_id: str) -> RunView | None:
        """Return everything about a run that has ended; None while it has not. Raises `NotFound` if there is none."""
        run = self._ledger.ended_run(run_id)
        return self._summarised(run) if run else None

    def _summarised(self, run: RunView) -> RunView:
        counts, refused = self._ledger.count_kinds(run.run_id), EgressRefused.kind
        told = self._ledger.events_of_kind(run.run_id, refused) if refused in counts else []
        summary = summarise(run, counts, [event.body_as(EgressRefused) for event in told])
        return run.model_copy(update={"plan_summary": summary})

    def recent(
        self, caller: Caller, limit: int, before: str | None = None, *, corpus: str | None = None, **filters: Any
    ) -> list[RunSummary]:
        """Return runs of one corpus, or of all the caller's, newest first. Raises `Forbidden` for another's corpus.
        `filters` are those of the ledger's `runs`."""
        if corpus is not None:
            caller.may_touch(corpus)
        return self._ledger.runs(limit, before, corpus, corpora=caller.corpora, **filters)


class Announcements:
    """One subscription for the whole process, shared by all waiting requests."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._followers: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.is_ending = False
        """Whether the process is to end: who waits returns, so that no stream holds it up."""

    def end_waiting(self) -> None:
        """Wake all who wait, for the last time. For the running loop."""
        self.is_ending = True
        for key in self._waiting:
            self.tell(key)

    def tell(self, key: str) -> None:
        """Wake who waits for news of a run, or of a figure of the console."""
        for news in self._waiting.get(key, ()):
            news.set()

    def start(self) -> None:
        """Begin to listen, in the running loop."""
        self._task = asyncio.create_task(self._listen(), name="announcements")

    async def stop(self) -> None:
        """Stop listening."""
        self._stopping = True
        # A connection that is being opened or closed can swallow a cancellation.
        while self._task and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=PATIENCE_SECONDS)

    @contextmanager
    def of(self, run_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever something of the run was recorded."""
        news = asyncio.Event()
        self._waiting[run_id].add(news)
        try:
            yield news
        finally:
            self._waiting[run_id].discard(news)
            if not self._waiting[run_id]:
                del self._waiting[run_id]

    @contextmanager
    def place(self, owner: str) -> Iterator[None]:
        """Hold one of the places that an API key has for following runs. Raises `Overloaded` if it holds all."""
        if self._followers[owner] >= MOST_FOLLOWED:
            problem = f"this key follows or waits for {MOST_FOLLOWED} runs already: end one of them first"
            raise Overloaded(problem, LONGEST_PATIENCE_SECONDS)
        self._followers[owner] += 1
        try:
            yield
        finally:
            self._followers[owner] -= 1

    async def _listen(self) -> None:
        while not self._stopping:
            try:
                await self._follow()
            except (RedisError, OSError) as error:
                log.info("announcements_lost", error=repr(error))
                await asyncio.sleep(PATIENCE_SECONDS)

    async def _follow(self) -> None:
        client = redis.asyncio.Redis.from_url(self._settings.broker_location, socket_connect_timeout=2)
        async with client, client.pubsub(ignore_subscribe_messages=True) as subscription:
            await subscription.subscribe(Keys(self._settings.instance).announced)
            async for message in subscription.listen():
                self.tell(json.loads(message["data"])["run_id"])


async def news_or_patience(news: asyncio.Event, seconds: float) -> None:
    """Return when there is news, or when `seconds` have passed."""
    try:
        await asyncio.wait_for(news.wait(), seconds)
    except TimeoutError:
        return
    finally:
        news.clear()


class Explanation(Value):
    """A recorded decision of the gate, and the same one computed again from its recorded inputs."""

    identical: bool
    """Whether both are the same, bit for bit, and so are those of `before`."""
    recorded: dict[str, Any]
    recomputed: dict[str, Any]
    before: Annotated[Explanation | None, Field(exclude_if=is_none)] = None
    """The run's first decision, where this is its second."""


class GateProfile(Value):
    """A profile of the gate: the scores from which a run searches, and crawls too, and when it skips."""

    name: str
    version: int
    config_hash: str
    search: float
    full_loop: float
    skip: float
    weights: dict[str, float]
    """The weight of each feature."""
    is_former: bool = False
    """Whether it is the version before, which decides while the flag `gate_weights` is off."""


def read_trace(context: Context, run_id: str, caller: Caller) -> Timeline:
    """Return where the time of a run went, by the ledger; spans add only the parts of the work.

    Raises `NotFound` if there is no such run any more, or it is not the caller's to see.
    """
    record = context.ledger.run_record(run_id)
    if not caller.may_see(record.corpus):
        raise NotFound(f"no run {run_id}")
    details: list[Detail] = []
    try:
        details = [
            Detail(one.event_id, one.epoch, one.name, one.started_ns / 1e9, one.ended_ns / 1e9, one.problem)
            for one in _kept_spans(context, lambda store: store.parts_of(run_id))
        ]
    except sqlite3.DatabaseError as error:
        log.warning("span_store_unreadable", error=repr(error))
    return build_timeline(record, context.ledger.clock(), details)


def run_of_trace(context: Context, trace_id: str) -> str:
    """Return the first run of a trace. Raises `NotFound` if no span of one is kept, `Corrupted` for a damaged store."""
    try:
        found = _kept_spans(context, lambda store: store.run_of(trace_id))
    except sqlite3.DatabaseError as error:
        problem = f"the span store cannot be read ({error})"
        raise Corrupted(f"{problem}; it holds only traces: remove it to begin anew, or name the run") from error
    if found is None:
        raise NotFound(
            f"no run of trace {trace_id} is known; its spans are kept for {RETENTION_HOURS:g} h: name the run"
        )
    return found


def _kept_spans(context: Context, read: Callable[[SpanStore], SomeSpans]) -> SomeSpans:
    store = SpanStore.in_dir(context.settings.data_dir)
    try:
        return read(store)
    finally:
        store.close()


def explain_run(context: Context, run_id: str) -> Explanation:
    """Compute the gate's decisions on a run again, and return the last; `identical` if they are those recorded.

    Raises:
        NotFound: the run has no decision, or its profile or model is not kept.
    """
    request = _recorded(context, run_id, GateRequested)[0]
    probes, decisions = _recorded(context, run_id, CoverageProbed), _recorded(context, run_id, GateDecided)
    explained = None
    for probed, decided in zip(probes, decisions, strict=False):  # the last probe may not be decided yet
        sha256 = needs_model(decided)
        model = None if sha256 is None else GateModel.from_bytes(context.blobs.named(sha256), may_be_former=True)
        again = explain(request, probed, decided, _profile_of(context, decided), model)
        recorded, recomputed = decided.model_dump_json(), again.model_dump_json()
        explained = Explanation(
            identical=recorded == recomputed and (explained is None or explained.identical),
            recorded=json.loads(recorded),
            recomputed=json.loads(recomputed),
            before=explained,
        )
    return cast("Explanation", explained)


def list_profiles(context: Context) -> list[GateProfile]:
    """Return the profiles of the gate, by name; then the version before of each that has one."""
    every = [(one, False) for one in context.profiles.values()]
    every += [(one, True) for one in context.former_profiles.values()]
    return [
        GateProfile(
            name=one.name,
            version=one.version,
            config_hash=one.config_hash,
            **one.thresholds.model_dump(),
            weights=one.weights.model_dump(exclude_none=True),
            is_former=is_former,
        )
        for one, is_former in every
    ]


def _recorded(context: Context, run_id: str, kind: type[SomeBody]) -> list[SomeBody]:
    found = context.ledger.events_of_kind(run_id, kind.kind)
    if not found:
        run = context.ledger.run(run_id)
        raise NotFound(f"the {run.kind} run {run_id} ({run.status}) holds no {kind.kind}: there is nothing to explain")
    return [event.body_as(kind) for event in found]


def _profile_of(context: Context, decided: GateDecided) -> Profile:
    """Return the profile that decided: the present one if it is still the same, else the one kept then."""
    present = context.profiles.get(decided.profile)
    if present is not None and present.config_hash == decided.config_hash:
        return present
    return Profile.from_bytes(context.blobs.named(decided.config_hash))


def prompt_templates() -> list[PromptView]:
    """Return the templates that a request's `prompt` may name, each version by itself."""
    return [
        PromptView(name=one.name, version=one.version, full_name=full_name, summary=one.summary)
        for full_name, one in templates().items()
    ]
