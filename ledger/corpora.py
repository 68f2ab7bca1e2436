"""The corpora that were made on purpose: their settings, and which of them were deleted.

A corpus without an entry exists once something was written to it; the entry of a deleted one says that it does not,
although the folder of its journal stays. Every change of the settings raises the entry's version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import bindparam, select, update

from sluice.contracts.errors import Conflict, PreconditionFailed
from sluice.contracts.operations.corpora import CorpusSettings
from sluice.ledger.database import LedgerPart
from sluice.ledger.schema.tables import AnyRow, corpora, moment
from sluice.ledger.transaction import Transaction

_ALL = select(corpora)
_ONE = select(corpora).where(corpora.c.name == bindparam("of_name"))
_CHANGE = (
    update(corpora)
    .where(
        corpora.c.name == bindparam("of_name"),
        corpora.c.version == bindparam("of_version"),
        corpora.c.deleted_at.is_(None),
    )
    .values(settings=bindparam("new_settings"), version=corpora.c.version + 1)
    .returning(*corpora.c)
)


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """An entry. `version` is 0 for a corpus that has none."""

    name: str
    settings: CorpusSettings = field(default_factory=CorpusSettings)
    version: int = 0
    created_at: datetime | None = None
    created_by: str | None = None
    is_deleted: bool = False


class Corpora(LedgerPart):
    """The entries of one ledger. Every method is one transaction and may raise `Unavailable`."""

    def all(self) -> dict[str, CorpusEntry]:
        """Return every entry by its corpus, those of deleted corpora too."""
        return {row.name: _entry_of(row) for row in self._database.read(_ALL)}

    def one(self, name: str) -> CorpusEntry | None:
        """Return the entry of a corpus; None without one."""
        row = self._database.read(_ONE, {"of_name": name}).first()
        return _entry_of(row) if row else None

    def create(self, name: str, settings: CorpusSettings, owner: str) -> CorpusEntry:
        """Make an entry. Raises `Conflict` if there is one already."""
        with self._database.writing() as connection:
            if not enter(connection, name, owner, self._clock(), settings):
                raise Conflict(f"corpus {name!r} exists already")
            return _entry_of(connection.execute(_ONE, {"of_name": name}).one())

    def change(self, entry: CorpusEntry, settings: CorpusSettings, owner: str) -> CorpusEntry:
        """Replace the settings of the entry that was read; a corpus without an entry gets one.

        Raises `PreconditionFailed` if it was changed or deleted meanwhile.
        """
        with self._database.writing() as connection:
            if entry.version == 0 and enter(connection, entry.name, owner, self._clock(), settings):
                return _entry_of(connection.execute(_ONE, {"of_name": entry.name}).one())
            told = {"of_name": entry.name, "of_version": entry.version, "new_settings": settings.model_dump_json()}
            row = connection.execute(_CHANGE, told).first()
            if row is None:
                raise PreconditionFailed(f"corpus {entry.name!r} was changed meanwhile: read it again, then change it")
            return _entry_of(row)


_NO_SETTINGS = CorpusSettings()


def enter(connection: Transaction, name: str, owner: str, now: float, settings: CorpusSettings = _NO_SETTINGS) -> bool:
    """Make an entry, or make that of a deleted corpus anew; return False if there is one."""
    facts = {"created_at": now, "created_by": owner, "settings": settings.model_dump_json(), "deleted_at": None}
    if connection.insert_once(corpora, {"name": name, "version": 1, **facts}):
        return True
    row = connection.execute(_ONE, {"of_name": name}).one()
    if row.deleted_at is None:
        return False
    connection.update(corpora, {"name": name}, {"version": row.version + 1, **facts})
    return True


def mark_deleted(connection: Transaction, name: str, owner: str, now: float) -> None:
    """Record that the corpus is deleted."""
    enter(connection, name, owner, now)
    connection.update(corpora, {"name": name}, {"deleted_at": now})


def _entry_of(row: AnyRow) -> CorpusEntry:
    settings, is_deleted = CorpusSettings.model_validate_json(row.settings), row.deleted_at is not None
    return CorpusEntry(row.name, settings, row.version, moment(row.created_at), row.created_by, is_deleted)
