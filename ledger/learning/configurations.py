"""By which configurations the gate has decided, and since when: what it falls back to.

A configuration is named by the hash of a profile, whose canonical bytes are kept as the blob of that name; where a
learned model decides besides, its version stands behind a "+".
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import bindparam, select

from sluice.ledger.database import LedgerPart
from sluice.ledger.schema.tables import configurations

_HAS = configurations.c
_OF_PROFILE = (
    select(_HAS.config_hash, _HAS.first_decided_at)
    .where(_HAS.profile == bindparam("of_profile"))
    .order_by(_HAS.first_decided_at.desc(), _HAS.config_hash)
)


class Configurations(LedgerPart):
    """The configurations of one ledger. Every method is one transaction and may raise `Unavailable`."""

    def record(self, profile: str, config_hash: str, decided_at: float) -> bool:
        """The profile decided by this configuration at a moment; whether that is new. Its first time stays."""
        row = {"profile": profile, "config_hash": config_hash, "first_decided_at": decided_at}
        with self._database.writing() as connection:
            return connection.insert_once(configurations, row)

    def before(self, profile: str, config_hash: str, without: Collection[str] = ()) -> str | None:
        """The configuration that the profile first decided by just before this one, leaving some out.

        None where there is none, or this one is not known.
        """
        with self._database.reading() as connection:
            rows = connection.execute(_OF_PROFILE, {"of_profile": profile}).all()
        since = next((row.first_decided_at for row in rows if row.config_hash == config_hash), None)
        if since is None:
            return None
        earlier = (row.config_hash for row in rows if row.first_decided_at < since)
        return next((one for one in earlier if one not in without), None)

    def all(self) -> list[tuple[str, str, float]]:
        """Profile, configuration and when it first decided, in seconds since 1970; the oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(select(configurations).order_by(_HAS.first_decided_at, _HAS.config_hash)).all()
        return [(row.profile, row.config_hash, row.first_decided_at) for row in rows]
