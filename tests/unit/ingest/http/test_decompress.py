"""Decompression that stops at its ceiling."""

from __future__ import annotations

import contextlib
import gzip
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sluice.ingest.http.decompress import Inflater, UnknownEncoding

TEXT = b"the same sentence again and again. " * 2_000
ZSTD_SKIPPABLE = b"\x5a\x2a\x4d\x18\x03\x00\x00\x00abc"


def raw_deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(data) + engine.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd,
}


def unpack(encoding: str, sent: bytes, *, max_bytes: int = 1_000_000, step: int = 1_000_000) -> Inflater:
    inflater = Inflater(encoding, max_bytes)
    for start in range(0, len(sent), step):
        inflater.feed(sent[start : start + step])
    if not inflater.full:
        inflater.finish()
    return inflater


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("X-GZIP", gzip.compress(TEXT[:500], mtime=0) + gzip.compress(TEXT[500:], mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
        ("br", brotli.compress(TEXT)),
        ("zstd", zstd(TEXT)),
        ("zstd", zstd(TEXT[:500]) + ZSTD_SKIPPABLE + zstd(TEXT[500:])),
        ("br, gzip", gzip.compress(brotli.compress(TEXT), mtime=0)),
        (" Identity , zstd,deflate ", zlib.compress(zstd(TEXT))),
    ],
)
@pytest.mark.parametrize("step", [1, 37, 1_000_000])
def test_a_body_is_the_same_however_it_arrives(encoding: str, sent: bytes, step: int) -> None:
    inflater = unpack(encoding, sent, max_bytes=len(TEXT), step=step)
    assert inflater.body == TEXT
    assert not inflater.full


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.integers(1, 2_000)), max_size=6),
    st.lists(st.sampled_from(sorted(PACK)), max_size=2),
    st.integers(1, 5_000),
)
def test_whatever_was_packed_is_unpacked(parts: list[tuple[bytes, int]], encodings: list[str], step: int) -> None:
    data = sent = b"".join(part * times for part, times in parts)[:800_000]
    for encoding in encodings:
        sent = PACK[encoding](sent)
    assert unpack(", ".join(encodings), sent, step=step).body == data


@pytest.mark.parametrize("encoding", sorted(PACK))
@pytest.mark.parametrize("excess_bytes", range(-2, 3))
@pytest.mark.parametrize("step", [1, 2, 1_000_000])
def test_what_a_decoder_holds_back_at_a_full_piece_comes_out(encoding: str, excess_bytes: int, step: int) -> None:
    data = bytes(65_536 + 32_736 + excess_bytes)
    assert unpack(encoding, PACK[encoding](data), step=step).body == data


@given(st.sampled_from(sorted(PACK)), st.binary(max_size=200), st.integers(0, 300), st.binary(max_size=300))
def test_whatever_is_sent_is_a_body_or_an_error(encoding: str, text: bytes, kept: int, noise: bytes) -> None:
    for sent in (noise, PACK[encoding](text)[:kept] + noise):
        with contextlib.suppress(UnknownEncoding):
            assert len(unpack(encoding, sent, max_bytes=50_000).body) <= 50_000


def gzip_bomb() -> bytes:
    engine = zlib.compressobj(9, wbits=-15)
    block = engine.compress(bytes(1 << 20)) + engine.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + block * 1_024


def deflate_bomb() -> bytes:
    return b"\x78\x9c" + gzip_bomb()[10:]


def brotli_bomb() -> bytes:
    engine, megabyte = brotli.Compressor(quality=1), bytes(1 << 20)
    return b"".join([*(engine.process(megabyte) for _ in range(1_024)), engine.finish()])


def zstd_bomb() -> bytes:
    """Blocks that say: this byte, 131,072 times (RFC 8878, 3.1.1.2)."""
    block = (1 << 1 | 1 << 17 << 3).to_bytes(3, "little") + b"x"
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * 8_192


BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": gzip_bomb,
    "deflate": deflate_bomb,
    "br": brotli_bomb,
    "zstd": zstd_bomb,
    "zstd, gzip": lambda: gzip.compress(zstd_bomb(), mtime=0),
}
"""A gigabyte each."""

CHILD = """
import re, sys, time
from pathlib import Path
from sluice.ingest.http.decompress import Inflater

def peak_kib():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

encoding, bomb = sys.argv[1], Path(sys.argv[2]).read_bytes()
before, started = peak_kib(), time.thread_time()
inflater = Inflater(encoding, 10_000_000)
for start in range(0, len(bomb), 65_536):
    inflater.feed(bomb[start : start + 65_536])
assert inflater.full
print(peak_kib() - before, time.thread_time() - started)
"""


@pytest.mark.parametrize("encoding", sorted(BOMBS))
def test_a_gigabyte_in_a_megabyte_costs_its_ceiling(encoding: str, tmp_path: Path) -> None:
    bomb = BOMBS[encoding]()
    assert len(bomb) < 1_100_000
    (tmp_path / "bomb").write_bytes(bomb)
    child = [sys.executable, "-c", CHILD, encoding, str(tmp_path / "bomb")]
    growth_kib, cpu_seconds = map(
        float, subprocess.run(child, check=True, capture_output=True, text=True).stdout.split()
    )
    assert growth_kib < 32_000
    assert cpu_seconds < 5


def test_what_lies_below_another_encoding_has_the_ceiling_too() -> None:
    """A gzip head that never ends holds nothing, and is made of as much as one likes."""
    endless_name = b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + b"a" * 50_000_000
    inflater = unpack("gzip, gzip", gzip.compress(endless_name, 1, mtime=0), max_bytes=100_000, step=65_536)
    assert inflater.full
    assert inflater.body == b""


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_streams_that_hold_nothing_do_not_keep_us_busy(encoding: str) -> None:
    started = time.thread_time()
    with pytest.raises(UnknownEncoding, match="streams"):
        unpack(encoding, PACK[encoding](b"") * 400_000, step=65_536)
    assert time.thread_time() - started < 5


def test_a_decoder_looks_back_no_further_than_it_must() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=24, compression_level=1)
    engine = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    sent = engine.compress(TEXT) + engine.flush()
    with pytest.raises(UnknownEncoding, match="zstd"):
        unpack("zstd", sent)


@pytest.mark.parametrize("encoding", ["compress", "brotli", "gzip, compress", "gzip, br, zstd", "gzip, gzip, gzip"])
def test_encodings_that_were_never_offered_are_refused_by_name(encoding: str) -> None:
    with pytest.raises(UnknownEncoding, match=encoding):
        Inflater(encoding, 100)


@pytest.mark.parametrize("encoding", sorted(PACK))
def test_a_body_that_is_not_what_it_claims_is_refused(encoding: str) -> None:
    with pytest.raises(UnknownEncoding, match=encoding):
        unpack(encoding, b"<html>plain after all")


@pytest.mark.parametrize("encoding", [*sorted(PACK), "br, gzip", "gzip, br"])
@pytest.mark.parametrize("missing", [1, 5, 15])
def test_a_body_that_breaks_off_is_refused(encoding: str, missing: int) -> None:
    sent = TEXT
    for name in encoding.split(", "):
        sent = PACK[name](sent)
    with pytest.raises(UnknownEncoding, match="breaks off"):
        unpack(encoding, sent[:-missing])


@pytest.mark.parametrize("encoding", [*sorted(PACK), "gzip, br"])
def test_no_body_at_all_is_an_empty_one_in_any_encoding(encoding: str) -> None:
    assert unpack(encoding, b"").body == b""


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
@pytest.mark.parametrize("trailing", [b"\n", b"\0" * 512, b"<!-- page served in 0.2 s -->"])
@pytest.mark.parametrize("step", [1, 1_000_000])
def test_what_follows_a_whole_stream_is_passed_over(encoding: str, trailing: bytes, step: int) -> None:
    assert unpack(encoding, PACK[encoding](TEXT) + trailing, step=step).body == TEXT


@pytest.mark.parametrize("step", [1, 1_000_000])
def test_what_follows_brotli_is_refused(step: int) -> None:
    with pytest.raises(UnknownEncoding, match="br"):
        unpack("br", brotli.compress(TEXT) + b"<!-- page served in 0.2 s -->", step=step)
