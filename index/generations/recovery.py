"""Chooses the generation to start from when a corpus is opened, and verifies new ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from sluice.contracts.errors import Corrupted, NotFound
from sluice.index.disk.layout import CorpusLayout
from sluice.index.generations.generation import OpenGeneration
from sluice.index.generations.manifest import Manifest, load_manifest, parse_generation_number
from sluice.index.generations.publish import VerifiedFiles, list_generation_names, read_current_name, verify_files
from sluice.index.generations.view import View
from sluice.index.segments.segment_file import StoredSegment
from sluice.index.terms.analysis import analyse
from sluice.index.terms.bm25 import Boosts

_PLAIN = Boosts(title=0.0, headings=0.0, code=0.0, max_terms=1_000)
"""All terms of a text are searched: in a corpus of many languages its own need not be the rarest."""
_TESTED_WORDS = 12
"""Words of a chunk that are searched, if they have a term."""


def list_candidates(layout: CorpusLayout) -> list[str]:
    """List the generations in the order in which to try them: the current one, missing or not, and older ones.

    Newer ones are left out, as they may have been rolled back. Without a pointer, all of them, the newest first.
    """
    current, names = read_current_name(layout), list_generation_names(layout)
    if current is None:
        return names
    number = parse_generation_number(current)
    return [current, *(name for name in names if name != current and parse_generation_number(name) <= number)]


def find_base(
    layout: CorpusLayout, journal_offset: int, on_fallback: Callable[[str], None]
) -> tuple[Path, Manifest] | None:
    """Find the newest candidate that is intact; None where there is none, and the journal must be read from its start.

    `on_fallback` is called with the problem of each damaged one. Raises `Corrupted` when the journal, which ends at
    `journal_offset`, lacks records that a generation has.
    """
    for name in list_candidates(layout):
        folder = layout.generations / name
        try:
            manifest = load_manifest(folder)
            verify_files(folder, manifest, VerifiedFiles())
        except (Corrupted, NotFound) as error:
            on_fallback(str(error))
            continue
        if manifest.journal_offset > journal_offset:
            raise Corrupted(
                f"the journal of {layout.corpus} ends at {journal_offset}, yet {name} covers "
                f"{manifest.journal_offset}: restore the journal from a backup"
            )
        return folder, manifest
    return None


def self_test(folder: Path, manifest: Manifest, unchanged: dict[str, StoredSegment]) -> None:
    """Open a new generation as a reader would, and find its newest chunk by its vector and by its text.

    Raises `Corrupted` when counts disagree or the chunk is not found.
    """
    generation = OpenGeneration(folder, manifest, unchanged)
    try:
        counts = (_count_live_rows(generation), generation.terms.chunk_count, manifest.chunk_count)
        if len(set(counts)) != 1:
            raise Corrupted("vectors {}, texts {} and chunks {} of the new generation differ".format(*counts))
        if manifest.chunk_count:
            _find_newest(generation)
    finally:
        generation.close()


def _count_live_rows(generation: View) -> int:
    return sum(len(part.live_rows) for part in generation.parts)


def _find_newest(generation: View) -> None:
    part = next(part for part in reversed(generation.parts) if len(part.live_rows))
    row = int(part.live_rows[-1])
    number, vector = int(part.segment.numbers[row]), part.segment.vectors_of(np.array([row]))[0]
    _, chunk = generation.read(number)
    own_score = float(vector @ vector)
    nearest = generation.nearest(vector, 1, generation.live_masks()).scores
    if not len(nearest) or nearest[0] < own_score - 1e-4:
        raise Corrupted(f"chunk {chunk.chunk_id} of the new generation is not found by its own vector")
    beginning = " ".join(chunk.text.split()[:_TESTED_WORDS])
    text = beginning if analyse(beginning) else chunk.text
    if analyse(text) and not generation.terms.search(text, _PLAIN, 1, only=[number]):
        raise Corrupted(f"chunk {chunk.chunk_id} of the new generation is not found by its own text")
