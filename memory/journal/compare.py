"""Proves that memory equals its journal: compares the state held with a reading from the start."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any

from pydantic_core import to_json

from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.journal.file import Journal
from sluice.memory.journal.read import Damage
from sluice.memory.journal.write import lock_journal

_SHOWN = 3
"""Most ids that a difference names."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Result for one feature. `differences` are sentences; if there are none, both states are the same, id for id."""

    entries: int
    sha256: str
    """Hash of the state as read anew; see `state_sha256`."""
    differences: tuple[str, ...]
    problems: tuple[Damage, ...]


def prove(journal: Journal) -> Proof:
    """Compare the state that `journal` holds with a new reading of its file from the start.

    Raises `Unavailable` if the file cannot be read, or another process writes to it for too long.
    """
    anew = Journal(journal.path.parent, journal.feature)
    with lock_journal(journal.path) if journal.path.exists() else nullcontext():
        held, fresh = journal.read(), anew.read()
    return Proof(len(fresh.entry_ids), state_sha256(fresh), differences(held, fresh), anew.problems())


def state_sha256(state: FeatureMemory) -> str:
    """Return the SHA-256 of a state, hexadecimal: equal for equal ids, records, learnings and counts in equal order."""
    digest = hashlib.sha256()
    for one in fields(state):
        digest.update(to_json([one.name, _in_order(getattr(state, one.name))]))
    return digest.hexdigest()


def differences(held: FeatureMemory, fresh: FeatureMemory) -> tuple[str, ...]:
    """Return a sentence for each part in which two states differ."""
    return tuple(
        f"{one.name}: {told}"
        for one in fields(held)
        if (told := _difference(getattr(held, one.name), getattr(fresh, one.name)))
    )


def _difference(held: Any, fresh: Any) -> str:
    if _in_order(held) == _in_order(fresh):
        return ""
    if not isinstance(held, dict | set):
        return "not the same"
    told = {"only held": set(held) - set(fresh), "only in the journal": set(fresh) - set(held)}
    if isinstance(held, dict):
        told["with other content"] = {key for key in held.keys() & fresh.keys() if held[key] != fresh[key]}
    found = [f"{len(keys)} {what} ({_some(keys)})" for what, keys in told.items() if keys]
    return ", ".join(found) or "in another order"


def _some(keys: Iterable[Any]) -> str:
    names = sorted(" and ".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in keys)
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _in_order(value: Any) -> Any:
    """Return a mapping as its pairs, in their order; a set sorted; anything else unchanged."""
    if isinstance(value, dict):
        return list(value.items())
    return sorted(value) if isinstance(value, set) else value
