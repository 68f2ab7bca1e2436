"""Lists the blobs that the ledger refers to, in batches, so that no transaction takes long.

A reference is any SHA-256 in an event, in a dead letter's payload, present or past, of a known page's body, of the
batch that a chunk in quarantine comes from, of a configuration that the gate has decided by, or of a model that is or
was rolled out. Other hashes in these texts are returned too: this may keep an unneeded blob, but never removes a needed
one. The journal holds texts and vectors themselves and refers to no blob.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Column, Select, bindparam, select, tuple_

from sluice.ledger.schema.tables import (
    configurations,
    dead_letter_payloads,
    dead_letters,
    events,
    pages,
    quarantine,
    rollouts,
)
from sluice.ledger.transaction import Transaction

_SHA256 = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class Place(NamedTuple):
    """Position in the scan of references: the source, and the key of the last row read."""

    source: int = 0
    after: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """A table that is read in the order of `keys`: the statements for its first rows and for those after a key."""

    keys: tuple[str, ...]
    first: Select[Any]
    behind: Select[Any]

    @classmethod
    def of(cls, told: Column[Any], *keys: Column[Any]) -> _Source:
        """Build the source for a table whose column `told` holds references."""
        first = select(*keys, told.label("told")).order_by(*keys).limit(bindparam("most"))
        last = (bindparam(f"after_{key.name}", type_=key.type) for key in keys)
        return cls(tuple(key.name for key in keys), first, first.where(tuple_(*keys) > tuple_(*last)))


_SOURCES = (
    _Source.of(events.c.payload, events.c.seq),
    _Source.of(dead_letters.c.payload, dead_letters.c.id),
    _Source.of(dead_letter_payloads.c.payload, dead_letter_payloads.c.seq),
    _Source.of(pages.c.body_sha256, pages.c.corpus, pages.c.url_sha256),
    _Source.of(quarantine.c.blob_sha256, quarantine.c.id),
    _Source.of(configurations.c.config_hash, configurations.c.profile, configurations.c.config_hash),
    _Source.of(rollouts.c.model_sha256, rollouts.c.model_version),
)
"""Events before dead letters: a letter replayed during the scan, whose event was missed, is still read as a letter."""


def references(connection: Transaction, place: Place, most: int) -> tuple[set[str], Place | None]:
    """Return the hashes (hexadecimal) in the next `most` rows, and the next place; None when all were read."""
    source = _SOURCES[place.source]
    after = {f"after_{key}": value for key, value in zip(source.keys, place.after or (), strict=False)}
    rows = connection.execute(source.behind if after else source.first, {**after, "most": most}).all()
    found = {sha256 for row in rows for sha256 in hashes_in(row.told)}
    if len(rows) == most:
        return found, Place(place.source, tuple(getattr(rows[-1], key) for key in source.keys))
    following = place.source + 1
    return found, Place(following) if following < len(_SOURCES) else None


def hashes_in(told: str | bytes | memoryview | None) -> list[str]:
    """Return every hexadecimal substring of a column that may be a SHA-256."""
    return _SHA256.findall(told if isinstance(told, str) else bytes(told or b"").decode("ascii", "replace"))
