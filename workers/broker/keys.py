"""Every name that Sluice uses in the broker, in one place, with its time to live.

All are prefixed by the instance's name, so that instances can share a broker.

| name | kind | holds | lives |
|---|---|---|---|
| `{i}:{stage}` | list | messages of one stage | until consumed; rebuilt from the ledger if lost |
| `{i}:taken:{stage}:{worker}` | list | items that a worker has taken from its queue | until acknowledged, or put back |
| `{i}:takers:{stage}` | set | workers that may have such a list | until they are dead and it is empty |
| `{i}:malformed:{stage}` | list | items of a queue that are no wake-up | until parked as dead letters |
| `{i}:parking:{stage}` | string | lock of the worker that parks one of them | `PARKING_TTL_SECONDS` |
| `{key}:misplaced-{random}` | any | a value of the wrong type, moved off its key | until an operator deletes it |
| `{i}:_kombu.binding…` | sets | topic bindings, for others to see | always; declared again if lost |
| `{i}:unacked`, `…_index`, `…_mutex` | hash, sorted set, lock | items handed out by stock kombu | until acknowledged |
| `{i}:reads` | list | direct queries for the query pool | `REPLY_TTL_SECONDS` after the latest |
| `{i}:reply:{id}` | list | the answer to one direct query | `REPLY_TTL_SECONDS` |
| `{i}:worker:{stage}:{name}` | string | how many events this living worker handles at once | `PRESENCE_TTL_SECONDS` |
| `{i}:embedder-down` | string | why the embedding model is out of reach | `EMBEDDER_DOWN_TTL_SECONDS` |
| `{i}:turns:host:{host}`, `…domain:{domain}` | hash | times of the next permitted requests | see
`ingest.politeness.rate_limit` |
| `{i}:robots:{origin}` | string | the rules of a robots.txt | a day, five minutes where it was not available |
| `{i}:host:{host}` | hash | whether its latest pages needed a browser | 7 days |
| `{i}:hosts:{day}`, `{i}:hosts:{day}:{host}` | sorted set, hash | the crawl's counts for each host | 8 days |
| `{i}:quota:…` | counters | search calls per provider and day | two days |
| `{i}:empty:{hash}` | string | a search for which a provider found nothing | 600 s |
| `{i}:announced` | pub/sub channel | run id and kind of each recorded event | not kept: only a hint |
| `{i}:cancelled` | pub/sub channel | ids of cancelled runs | not kept: only a hint |
"""

from __future__ import annotations

import secrets

from sluice.contracts.event import QUEUES

EXCHANGE = "sluice"
REPLY_TTL_SECONDS = 60
PARKING_TTL_SECONDS = 10
"""Time that a worker which dies while it parks delays the others. If the ledger takes longer, two may park one item."""
EMBEDDER_DOWN_TTL_SECONDS = 6
"""Three reports of a worker that it is still so."""
PRESENCE_TTL_SECONDS = 6
"""Three missed signs of life."""


class Keys:
    """The names of one instance."""

    def __init__(self, instance: str) -> None:
        self.prefix = f"{instance}:"
        self.bindings = f"{self.prefix}_kombu.binding.{EXCHANGE}"
        """Kombu's name for the bindings of our exchange."""
        self.reads = f"{self.prefix}reads"
        self.announced = f"{self.prefix}announced"
        self.cancelled = f"{self.prefix}cancelled"
        self.embedder_down = f"{self.prefix}embedder-down"

    def queue(self, stage: str) -> str:
        """Return the list of a stage's messages."""
        return f"{self.prefix}{stage}"

    def taken(self, stage: str, worker: str) -> str:
        """Return the list of items that a worker has taken from its queue and not acknowledged."""
        return f"{self.prefix}taken:{stage}:{worker}"

    def takers(self, stage: str) -> str:
        """Return the set of a stage's workers that may have taken items."""
        return f"{self.prefix}takers:{stage}"

    def malformed(self, stage: str) -> str:
        """Return the list of items from a stage's queue that are no wake-up."""
        return f"{self.prefix}malformed:{stage}"

    def parking(self, stage: str) -> str:
        """Return the lock of the worker that parks a malformed item."""
        return f"{self.prefix}parking:{stage}"

    def presence(self, stage: str, worker: str) -> str:
        """Return the key by which a worker shows that it lives. `*` for a part gives a pattern."""
        return f"{self.prefix}worker:{stage}:{worker}"

    def reply(self, request_id: str) -> str:
        """Return the key of the reply to one direct query."""
        return f"{self.prefix}reply:{request_id}"

    def kinds(self) -> dict[str, str]:
        """Return the Redis type of each key that a worker or a reader depends on."""
        lists = [self.reads] + [key(stage) for stage in QUEUES for key in (self.queue, self.malformed)]
        sets = [self.bindings, f"{self.prefix}_kombu.binding_permanent.{EXCHANGE}", *map(self.takers, QUEUES)]
        return dict.fromkeys(lists, "list") | dict.fromkeys(sets, "set")


def misplaced_key(key: str) -> str:
    """Return a new name for a key that holds a value of the wrong type."""
    return f"{key}:misplaced-{secrets.token_hex(4)}"
