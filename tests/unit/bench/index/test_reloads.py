"""What the reloads under load promise: they happen, and what would be wrong with them is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.index.beacons import QUERY, beacon_vector, beacons, sighting, version_at
from bench.index.documents import FINGERPRINT
from bench.index.reloads import drift, figures_of, measure_reloads, mixed
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings


@pytest.mark.slow
def test_every_publish_is_reloaded_while_threads_search(tmp_path: Path) -> None:
    figures = measure_reloads(600, 5, tmp_path)
    assert figures["reloads"] == 5
    assert figures["failed searches"] == figures["mixed chunks"] == 0
    assert figures["searches under reloads"] > 5


def test_a_beacon_tells_its_version_twice(tmp_path: Path) -> None:
    with IndexWriter(tmp_path, QUERY.corpus) as writer:
        for version in (3, 4):
            writer.append(*beacons(version), FINGERPRINT)
            writer.publish()
    found = IndexReader(tmp_path, QUERY.corpus, QuerySettings()).search(QUERY, beacon_vector())
    assert [sighting(chunk)[1:] for chunk in found.chunks] == [(4, 4)] * QUERY.top_k
    assert len({sighting(chunk)[0] for chunk in found.chunks}) == QUERY.top_k


@pytest.mark.parametrize(
    ("journal_offset", "number", "version"),
    [(15, 0, -1), (115, 0, 0), (115, 15, 0), (116, 0, 0), (131, 0, 1), (131, 15, 0), (145, 14, 1), (145, 15, 0)],
)
def test_at_each_offset_one_version_of_a_beacon_is_right(journal_offset: int, number: int, version: int) -> None:
    """Version 0 lies at the offsets 100 to 115, version 1 at 131 to 146."""
    assert version_at(journal_offset, number, [115, 146]) == version


@pytest.mark.parametrize("seen", [[115, 3, 1, 1, 7], [146, 3, 0, 0, 7], [146, 3, 0, 1, 7], [146, 3, 1, 0, 7]])
def test_a_chunk_that_is_not_of_its_results_offset_is_mixed(seen: list[int]) -> None:
    assert mixed([[146, 2, 1, 1, 100], [115, 2, 0, 0, 100], seen], [115, 146]) == 7


def test_memory_that_grows_shows_as_drift() -> None:
    assert drift([50, 50, 100, 100, 100, 100, 110, 110]) == pytest.approx(0.1)
    assert drift([100] * 8) == 0


def test_failures_of_both_phases_count() -> None:
    phase = {"searches": 10, "p50_ms": 1.0, "p99_ms": 2.0, "failures": ["Corrupted()"], "resident_bytes": [100] * 4}
    figures = figures_of({"phases": {"steady": phase, "reloading": phase}, "seen": []}, [0])
    assert figures["failed searches"] == 2
    assert figures["reloading : steady, p99"] == 1
