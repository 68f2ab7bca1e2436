"""Looks for documents in everything that a corpus has on disk, dead versions included. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sluice.contracts.document import DocumentFacts
from sluice.contracts.errors import NotFound
from sluice.index.disk.layout import CorpusLayout
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.publish import list_generation_names
from sluice.index.generations.view import OpenGeneration
from sluice.index.journal.document_facts import make_facts
from sluice.index.journal.files import read_journal
from sluice.index.journal.records import Removal, decode_record

IsWanted = Callable[[DocumentFacts], bool]


@dataclass(slots=True)
class Found:
    """Number of document versions read in one place, and the ids of the documents among them that were searched for."""

    place: str
    looked_at: int = 0
    ids: set[str] = field(default_factory=set)


def find_in_generations(layout: CorpusLayout, is_wanted: IsWanted) -> Iterator[Found]:
    """Look into each generation on disk, at live and dead documents. Raises `Corrupted` for one that does not open."""
    for name in list_generation_names(layout):
        folder = layout.generations / name
        try:
            generation = OpenGeneration(folder, load_manifest(folder))
        except NotFound:  # collected meanwhile
            continue
        found = Found(name)
        try:
            for part in generation.parts:
                for document in range(part.segment.document_count):
                    _look(found, part.segment.facts(document), is_wanted)
        finally:
            generation.close()
        yield found


def find_in_journal(layout: CorpusLayout, is_wanted: IsWanted, document_ids: frozenset[str]) -> Found:
    """Look at each record of the journal; a removal is found if its id is in `document_ids`. Raises `Corrupted`."""
    found = Found("journal")
    for frame in read_journal(layout.journal):
        record = decode_record(frame.kind, frame.payload)
        if isinstance(record, Removal):
            found.looked_at += 1
            if record.document_id in document_ids:
                found.ids.add(record.document_id)
        else:
            _look(found, make_facts(record.document), is_wanted)
    return found


def _look(found: Found, facts: DocumentFacts, is_wanted: IsWanted) -> None:
    found.looked_at += 1
    if is_wanted(facts):
        found.ids.add(facts.document_id)
