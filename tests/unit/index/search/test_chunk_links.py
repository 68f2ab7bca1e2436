"""A chunk is read from a segment with the links that it was written with."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.contracts.document import Chunk, PageLink
from sluice.index.local.memory_segment import MemorySegment

LINKS = (PageLink(1, "https://shop.example/", "the shop"),)


@pytest.mark.parametrize("facts", [{"links": LINKS}, {}, {"links": LINKS, "anchor": "a", "page": 2}])
def test_a_record_gives_its_links_and_an_older_one_none(facts: dict[str, Any]) -> None:
    chunk = Chunk(
        chunk_id="c1",
        document_id="d1",
        ordinal=0,
        text="the shop",
        start_line=1,
        end_line=1,
        token_estimate=2,
        checksum="0" * 64,
        **facts,
    )
    record = chunk.model_dump_json().encode()
    segment: Any = MemorySegment.__new__(MemorySegment)
    segment.name, segment.chunk_record = "s", lambda row: record
    assert segment.chunk(0) == chunk
    assert segment.chunk(0).links == facts.get("links", ())
