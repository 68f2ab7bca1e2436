"""Every name that Sluice uses in the broker, in one place, with its time to live.

All are prefixed by the instance's name, so that instances can share a broker.

| name | kind | holds | lives |
|---|---|---|---|
| `{i}:{stage}` | list | messages of one stage | until consumed; rebuilt from the ledger if lost |
| `{i}:unacked`, `…_index`, `…_mutex` | hash, sorted set, lock | messages handed out | until acknowledged or restored |
| `{i}:_kombu.binding.{exchange}` | set | topic bindings | always; declared again by the reconciler if lost |
| `{i}:reads` | list | direct queries for the query pool | `REPLY_TTL_SECONDS` after the latest |
| `{i}:reply:{id}` | list | the answer to one direct query | `REPLY_TTL_SECONDS` |
| `{i}:worker:{stage}:{name}` | string | that this worker lives and listens | `PRESENCE_TTL_SECONDS` |
| `{i}:rate:…` | counters | requests per host | two windows of the limit |
| `{i}:quota:…` | counters | search calls per provider and day | two days |
| `{i}:announced` | pub/sub channel | run id and kind of each recorded event | not kept: only a hint |
"""

from __future__ import annotations

EXCHANGE = "sluice"
REPLY_TTL_SECONDS = 60
PRESENCE_TTL_SECONDS = 6
"""Three missed signs of life."""


def key_prefix(instance: str) -> str:
    """What every key of this instance begins with."""
    return f"{instance}:"


def bindings_key(instance: str) -> str:
    """The set of bindings of our exchange, as kombu names it."""
    return f"{key_prefix(instance)}_kombu.binding.{EXCHANGE}"


def queue_key(instance: str, stage: str) -> str:
    """The list that holds the messages of a stage."""
    return f"{key_prefix(instance)}{stage}"


def presence_key(instance: str, stage: str, worker: str) -> str:
    """Where a worker says that it lives. `*` for a part gives a pattern."""
    return f"{key_prefix(instance)}worker:{stage}:{worker}"


def reads_key(instance: str) -> str:
    """The lane of direct queries."""
    return f"{key_prefix(instance)}reads"


def reply_key(instance: str, request_id: str) -> str:
    """Where the answer to one direct query is put."""
    return f"{key_prefix(instance)}reply:{request_id}"


def announced_channel(instance: str) -> str:
    """The channel on which recorded events are announced."""
    return f"{key_prefix(instance)}announced"
