"""API keys in the ledger: a hash, never the key; its role, its corpora, and whether it is revoked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, select, update

from sluice.contracts.errors import Conflict
from sluice.ledger.database import LedgerPart
from sluice.ledger.schema.tables import AnyRow, api_keys, moment, perhaps_moment


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key. `corpora` are the names it may access; empty: all. `revoked_at` is None while it is in force."""

    id: str
    hash: str
    name: str
    role: str
    corpora: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None = None


_ALL = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)
_REVOKE = (
    update(api_keys)
    .where(api_keys.c.id == bindparam("of_key"), api_keys.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("moment"))
)


class KeysTable(LedgerPart):
    """Insert, list, find and revoke keys."""

    def insert(self, key_id: str, key_hash: str, name: str, role: str, corpora: Sequence[str] = ()) -> None:
        """Record a key. Raises `Conflict` if its id or its hash is recorded already."""
        row = {
            "id": key_id,
            "hash": key_hash,
            "name": name,
            "role": role,
            "corpora": json.dumps(list(corpora)),
            "created_at": self._clock(),
        }
        with self._database.writing() as connection:
            if not connection.insert_once(api_keys, row):
                raise Conflict(f"key {key_id} is recorded already")

    def list(self) -> Sequence[KeyRecord]:
        """Return every key, revoked ones too, oldest first."""
        return [_record(row) for row in self._database.read(_ALL)]

    def agents(self) -> frozenset[str]:
        """Return the ids of the agents' keys in force."""
        return frozenset(one.id for one in self.list() if one.role == "agent" and one.revoked_at is None)

    def find(self, key_hash: str) -> KeyRecord | None:
        """Return the key with this hash, revoked or not."""
        with self._database.reading() as connection:
            row = connection.select(api_keys, {"hash": key_hash}).first()
        return None if row is None else _record(row)

    def revoke(self, key_id: str) -> bool:
        """Revoke a key; return False when it was revoked before. Raises `NotFound` if there is no such key."""
        with self._database.writing() as connection:
            if connection.execute(_REVOKE, {"of_key": key_id, "moment": self._clock()}).rowcount == 1:
                return True
            connection.select(api_keys, {"id": key_id}).found(f"key {key_id}")
            return False


def _record(row: AnyRow) -> KeyRecord:
    corpora, revoked = tuple(json.loads(row.corpora)), perhaps_moment(row.revoked_at)
    return KeyRecord(row.id, row.hash, row.name, row.role, corpora, moment(row.created_at), revoked)
