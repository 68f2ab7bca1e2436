"""Decompression that stops at its ceiling."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from ingest.inflate import Inflater, UnknownEncoding

TEXT = b"the same sentence again and again. " * 2_000


def raw_deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(data) + engine.flush()


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT)),
        ("X-GZIP", gzip.compress(TEXT[:500]) + gzip.compress(TEXT[500:])),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
    ],
)
@pytest.mark.parametrize("step", [1, 37, 1_000_000])
def test_a_body_is_the_same_however_it_arrives(encoding: str, sent: bytes, step: int) -> None:
    inflater = Inflater(encoding, len(TEXT))
    for start in range(0, len(sent), step):
        inflater.feed(sent[start : start + step])
    assert inflater.body == TEXT
    assert not inflater.full


def test_a_bomb_costs_no_more_than_its_ceiling() -> None:
    bomb = gzip.compress(bytes(50_000_000), compresslevel=1)
    tracemalloc.start()
    inflater = Inflater("gzip", 1_000_000)
    inflater.feed(bomb)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert inflater.full
    assert len(inflater.body) == 1_000_000
    assert peak_bytes < 8_000_000


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip"])
def test_encodings_that_were_never_offered_are_refused_by_name(encoding: str) -> None:
    with pytest.raises(UnknownEncoding, match=encoding):
        Inflater(encoding, 100)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_is_not_what_it_claims_is_refused(encoding: str) -> None:
    with pytest.raises(UnknownEncoding, match=encoding):
        Inflater(encoding, 100).feed(b"<html>plain after all")
