"""Moves the data of this machine to the object store that machines share, and back, for an operator."""

from __future__ import annotations

from sluice.contracts.errors import InvalidSetting
from sluice.disk.object_store import ObjectStore
from sluice.workers.context import Context
from sluice.workers.wiring.shared_form import put_back


def push_all(context: Context) -> dict[str, int]:
    """Put everything of this machine that the store lacks into it, as the first owner of the index does at its start.

    Raises `Conflict` while another machine owns the index, and `StoreDown`.
    """
    _required(context)
    context.index_owner.check()
    return {"corpora": len(context.readers.names()), "bytes": context.index_owner.ship_all()}


def pull_all(context: Context) -> dict[str, int]:
    """Bring everything of the instance to this machine, which owns the index then: corpora, blobs, memories, models.

    Raises `Conflict` while another machine owns the index, `Corrupted` for what is damaged in the store, `StoreDown`.
    """
    store = _required(context)
    context.index_owner.check()
    return {"corpora": len(context.readers.names()), "files": put_back(context.settings.data_dir, store)}


def _required(context: Context) -> ObjectStore:
    if context.object_store is None:
        raise InvalidSetting("object_store.url", "not set", "like s3://bucket/prefix; or name a corpus and a --store")
    return context.object_store
