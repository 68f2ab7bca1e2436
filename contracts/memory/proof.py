"""The proof that memory and its index are what the journal of a feature says."""

from __future__ import annotations

from sluice.contracts.base import Value


class MemoryProof(Value):
    """What follows from the journal of a feature, against what is held."""

    feature: str
    collection: str
    entries: int
    state_sha256: str
    """Of the state as read anew from the journal's first line: equal journals give equal states, id for id."""
    documents: int
    """That the index is to hold, without those that are withheld."""
    indexed: int
    withheld: int = 0
    """Documents that the guard holds in quarantine, or that the negative list keeps out."""
    missing: tuple[str, ...] = ()
    """Ids that the index lacks, or has in another version."""
    surplus: tuple[str, ...] = ()
    """Ids that it has and the journal does not."""
    differences: tuple[str, ...] = ()
    """In what the state that is held differs from the one read anew."""
    problems: tuple[str, ...] = ()
    """Damaged lines of the journal."""

    @property
    def is_equal(self) -> bool:
        """Whether everything held is exactly what the journal says."""
        return not (self.missing or self.surplus or self.differences or self.problems)
