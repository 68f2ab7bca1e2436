"""The Celery app: one topic exchange, one queue and one pool per stage.

Celery only carries ids from process to process. It may lose a message or deliver it
twice: the ledger alone decides which event runs (see `workers.task`). So results, chords,
`Task.retry` and ETA are not used, and messages are acknowledged late.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import kombu
import structlog
from celery import Celery
from kombu import Exchange
from kombu import Queue as KombuQueue

from sluice.contracts.errors import InvalidInput
from sluice.contracts.event import QUEUES, Queue
from sluice.workers.broker.keys import CONNECT_RETRIES, EXCHANGE, SOCKET_TIMEOUT_SECONDS, Keys
from sluice.workers.settings import PoolSettings, Settings

log = structlog.get_logger(__name__)


VERIFIED_KOMBU = frozenset({"5.7.0"})
"""Versions of kombu on which `workers.broker.redis_channel` was tested; any other uses its own channel."""

HARD_LIMIT_MARGIN_SECONDS = 3_600


PoolKind = Literal["threads", "solo", "prefork"]

POOLS: dict[Queue, PoolKind] = {
    "gate": "threads",  # waits for the ledger
    "search": "threads",  # waits for the network
    "crawl": "threads",  # waits for the network and the browser
    "chunk": "prefork",  # parses hostile bytes: a crash must cost one child
    "embed": "solo",  # the model uses every core by itself
    "index": "solo",  # one writer per corpus
    "query": "threads",  # threads share one open generation
    "graph": "solo",  # one writer of the published files
}
"""Pool kind of each stage that runs alone. In a shared process, each stage has as many threads as its pool size."""


def make_app(settings: Settings, worker: str = "") -> Celery:
    """Make a Celery app bound to the broker of `settings`. Opens no connection.

    `worker` is the name of a consuming process, under which the broker records the items that it has taken.
    """
    # A named transport needs TLS by name too: kombu reads it from the scheme, but only for its own transports.
    tls = {"ssl_cert_reqs": ssl.CERT_REQUIRED} if settings.broker_location.startswith("rediss://") else None
    app = Celery("sluice", set_as_current=False, fixups=())  # its only fixup looks for Django
    exchange = Exchange(EXCHANGE, type="topic", durable=True)
    app.conf.update(
        broker_url=settings.broker_location,
        broker_transport=kombu_transport(),
        broker_use_ssl=tls,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "instance": settings.instance,
            "worker": worker,
            "global_keyprefix": Keys(settings.instance).prefix,
            # Down to unacked_mutex_expire: how stock kombu returns a dead worker's messages; our channel does not.
            "visibility_timeout": settings.delivery.event_timeout_seconds + HARD_LIMIT_MARGIN_SECONDS,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "unacked_mutex_expire": 30,
            "priority_steps": [0],
            "socket_timeout": SOCKET_TIMEOUT_SECONDS,
            "socket_connect_timeout": min(5.0, SOCKET_TIMEOUT_SECONDS),
            "health_check_interval": 10,
            **CONNECT_RETRIES,
        },
        task_queues=[KombuQueue(stage, exchange, routing_key=f"{stage}.#", durable=True) for stage in QUEUES],
        task_default_queue="query",
        task_create_missing_queues=False,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_soft_shutdown_timeout=settings.delivery.lease_seconds,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_max_memory_per_child=1_000_000,
    )
    if settings.wake_up_url:
        from sluice.workers.broker.rabbit import use_rabbit

        use_rabbit(app, settings.wake_up_url, settings.instance)
    return app


@functools.cache
def kombu_transport() -> str:
    """Return our transport, or kombu's own where ours was not verified with this version of kombu."""
    if kombu.__version__ in VERIFIED_KOMBU:
        return "sluice.workers.broker.redis_channel:Transport"
    log.warning(
        "kombu_not_verified",
        version=kombu.__version__,
        verified=sorted(VERIFIED_KOMBU),
        consequence="messages cost more, and a malformed one can stop a worker",
    )
    return "kombu.transport.redis:Transport"


def pool_size(settings: Settings, stage: Queue) -> int:
    """Return how many events a pool of this stage handles at once."""
    return int(getattr(settings.pools, stage))


def wanted_size(settings: Settings, stage: Queue, asked: Mapping[Queue, int]) -> int:
    """Return how many events of this stage are to be handled at once: what operators asked for counts first."""
    return asked.get(stage, pool_size(settings, stage))


def resized(settings: Settings, asked: Mapping[Queue, int]) -> Settings:
    """Return the settings with the pool sizes that operators asked for."""
    sizes: dict[str, int] = {**asked}  # type: ignore[dict-item]  # its keys are texts
    return settings.model_copy(update={"pools": settings.pools.model_copy(update=sizes)})


def threads_of(settings: Settings, name: str) -> tuple[int, ...]:
    """Return how many events one process of these stages handles at once, by stage."""
    stages = stages_of(name)
    return tuple(1 if POOLS[stage] == "solo" else pool_size(settings, stage) for stage in stages)


def processes_of(settings: Settings, without: Collection[Queue] = ()) -> dict[str, int]:
    """Return the worker processes of an instance, by the names of their stages, with the number of copies of each.

    The stages of `pools.together` share a process. A stage with several copies gets processes of its own, and one of
    size 0, or in `without`, none.
    """
    sizes = {stage: pool_size(settings, stage) for stage in QUEUES if stage not in without}
    copies = {stage: size if POOLS[stage] == "solo" else min(size, 1) for stage, size in sizes.items() if size}
    groups = [[stage for stage in copies if stage in group and copies[stage] == 1] for group in settings.pools.together]
    shared = {stage for group in groups for stage in group}
    groups += [[stage] for stage in copies if stage not in shared]
    groups = sorted(filter(None, groups), key=lambda group: QUEUES.index(group[0]))
    return {group_name(group): copies[group[0]] for group in groups}


def told_sizes(settings: Settings, without: Collection[Queue] = ()) -> str:
    """Return how many events each stage handles at once, by process, as text: `gate 4 + query 2 (usually 4), …`."""
    usual = PoolSettings()

    def told(stage: Queue) -> str:
        size, default = pool_size(settings, stage), getattr(usual, stage)
        return f"{stage} {size}" + (f" (usually {default})" if size != default else "")

    return ", ".join(" + ".join(map(told, stages_of(name))) for name in processes_of(settings, without))


def group_name(stages: Sequence[Queue]) -> str:
    """Return the name of a process of these stages, which `sluice worker` takes: `gate+query`."""
    return "+".join(stages)


def stages_of(name: str) -> tuple[Queue, ...]:
    """Return the stages in `name`. Raises `InvalidInput` if one is unknown, repeated or cannot share a process."""
    stages = tuple(name.split("+"))
    known = tuple(stage for stage in QUEUES if stage in stages)
    if len(known) != len(stages):
        remedy = f"one of {', '.join(QUEUES)}, or several that share a process: gate+query"
        raise InvalidInput("stage", f"{name!r} is none", remedy)
    if len(known) > 1 and any(POOLS[stage] == "prefork" for stage in known):
        raise InvalidInput("stage", f"{name!r} cannot share a process: chunk has processes of its own", "part them")
    return known
