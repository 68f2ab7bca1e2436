"""Where the graph could still have what is forgotten: rows of the ledger, and every generation on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pydantic import ValidationError

from sluice.contracts.errors import Corrupted
from sluice.contracts.operations.forget import Trace
from sluice.graph.generations.publish import MANIFEST, Generation, open_generation

if TYPE_CHECKING:
    from sluice.workers.context import Context

_MOST_NAMED = 20


def find_in_graph(context: Context, corpus: str, ids: frozenset[str]) -> Iterator[Trace]:
    """What the graph has of documents that are named, or that the index has no more."""
    with context.ledger.graph.snapshot(corpus) as rows:
        known = [one.document_id for one in rows.standing() if not one.is_tombstone]
    yield _trace(context, corpus, "graph rows", known, ids)
    folder = context.graphs.folder(corpus)
    for place in sorted(folder.glob("graph-*")):
        name = f"graph generation {place.name}"
        try:
            view = open_generation(folder, Generation.model_validate_json((place / MANIFEST).read_bytes()))
        except (OSError, ValidationError, Corrupted) as error:
            detail = f"it cannot be read, and goes with the next publishing: {error}"
            yield Trace(place=name, looked_at=0, found=("not looked into",), detail=detail)
        else:
            held = [view.node(number).key for number in range(view.documents)]
            yield _trace(context, corpus, name, held, ids)


def _trace(context: Context, corpus: str, place: str, held: list[str], ids: frozenset[str]) -> Trace:
    served = context.readers.reader(corpus).documents(held) if context.readers.exists(corpus) else {}
    found = sorted(one for one in held if one in ids or one not in served)
    return Trace(place=place, looked_at=len(held), found=_some(found))


def _some(names: Iterable[str]) -> tuple[str, ...]:
    every = tuple(names)
    more = (f"and {len(every) - _MOST_NAMED} more",) if len(every) > _MOST_NAMED else ()
    return (*every[:_MOST_NAMED], *more)
