"""Bytes become text by the labels of the Encoding Standard alone, in one pass over them."""

from __future__ import annotations

import contextlib
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webencodings.labels import LABELS

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract.charset import codec_of, decode

CODECS = {label: codec for label in LABELS if (codec := codec_of(label))}
PYTHON_ONLY = (
    *("punycode", "idna", "unicode_escape", "raw_unicode_escape", "utf-7", "utf_7", "base64", "zlib", "bz2", "hex"),
    *("rot13", "uu", "quopri", "undefined", "mbcs", "oem", "utf-32", "utf_8_sig", "cp037", "u8", "charmap", "palmos"),
)
MARKS = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")
MARKUP = (
    b"<meta charset=big5>",
    b"<!--",
    b"<meta a='",
    b"\x1b$B",
    b"\x1b(J",
    b"\x81",
    b"\xff\xfe",
    b"<?xml encoding='",
    b" ",
)


@pytest.mark.parametrize(
    "label", [*PYTHON_ONLY, "hz-gb-2312", "iso-2022-kr", "replacement", "x-user-defined", "no-such"]
)
def test_a_label_that_is_not_the_standard_s_counts_for_nothing(label: str) -> None:
    body = "naïve \\u0041 +ADw- x-80".encode()
    assert codec_of(label) is None
    declared = f"<meta charset={label}>".encode()
    assert decode(body, label) == body.decode()
    assert decode(declared + body, None) == (declared + body).decode()
    assert decode(body, f" {label.upper()}\t") == body.decode()


def test_a_page_that_names_punycode_is_read_in_a_moment() -> None:
    body = b"ab" * 200_000 + b"-" + b"b9" * 20_000
    started = time.thread_time()
    assert decode(body, "punycode") == body.decode()
    assert time.thread_time() - started < 5, "the codec needs hours for this"


def test_the_header_comes_before_the_page_and_the_mark_before_both() -> None:
    page = "<meta charset=koi8-r>страница".encode("cp1251")
    assert decode(page, "windows-1251").endswith("страница")
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le")):
        assert decode(mark + "<meta charset=koi8-r>naïve".encode(encoding), "koi8-r").endswith(">naïve")


@pytest.mark.parametrize(
    "declaration",
    [
        "<meta charset='koi8-r'>",
        "<META\nCHARSET = KOI8-R />",
        "<meta name=x content='a > b'><meta charset=koi8>",
        "<meta content='text/html; charset=koi8-r' http-equiv=Content-Type>",
        '<?xml version="1.0" encoding="koi8-r"?>',
        "<!-- <meta charset=utf-8> --><meta charset=koi8-r>",
        "<!--> <meta charset=koi8-r>",
    ],
)
def test_a_page_declares_its_encoding(declaration: str) -> None:
    assert decode(f"{declaration}\nстраница".encode("koi8-r"), None).endswith("страница")


@pytest.mark.parametrize(
    "page",
    [
        "<meta content='text/html; charset=koi8-r'>",  # without the pragma it describes something else
        "<!-- <meta charset=koi8-r> -->",
        "<!-- never closed <meta charset=koi8-r>",
        "<p title='<meta charset=koi8-r>'>",
        "<metadata charset=koi8-r>",
        "<meta name='charset' content='koi8-r'>",
        " " * 5_000 + "<meta charset=koi8-r>",
    ],
)
def test_what_only_looks_like_a_declaration_is_none(page: str) -> None:
    assert decode(f"{page}é".encode("cp1252"), None).endswith("é")


def test_a_page_that_can_be_read_to_its_declaration_is_not_utf_16() -> None:
    assert decode("<meta charset=utf-16>naïve".encode(), None).endswith("naïve")


def test_every_label_has_a_codec_that_reads_anything_in_a_moment() -> None:
    noise = random.Random(5).randbytes(125_000)
    bodies = (noise, b"\x1b$B" * 40_000, b"\x81" * 125_000, b"a" * 125_000)
    for codec in set(CODECS.values()):
        for body in bodies:
            started = time.thread_time()
            body.decode(codec, "replace")
            assert time.thread_time() - started < 0.5, codec


@given(
    st.sampled_from([*sorted(CODECS), *PYTHON_ONLY]) | st.text(max_size=20),
    st.lists(st.binary(min_size=1, max_size=12) | st.sampled_from(MARKUP), min_size=1, max_size=4),
    st.binary(max_size=40) | st.sampled_from([*MARKUP, *MARKS]),
)
def test_whatever_a_page_says_it_is_read_within_a_second_a_megabyte(
    label: str, parts: list[bytes], start: bytes
) -> None:
    pattern = b"".join(parts)
    body = (start + pattern * (250_000 // len(pattern)))[:250_000]
    started = time.thread_time()
    with contextlib.suppress(InvalidInput):
        decode(body, label)
    assert time.thread_time() - started < 0.25


@pytest.mark.parametrize("start", [b"<meta " * 700, b"<!--" * 1_000, b"<meta a='" * 400, b'<meta ="' + b" " * 4_000])
def test_a_declaration_that_is_made_to_hang_us_does_not(start: bytes) -> None:
    started = time.thread_time()
    decode(start, None)
    assert time.thread_time() - started < 2


def test_what_fits_no_encoding_is_windows_1252_where_every_byte_is_a_character() -> None:
    body = b"na\xefve \x81 \x93quoted\x94"
    assert decode(body, "utf-8") == "naïve \x81 “quoted”"


def test_binary_is_refused() -> None:
    with pytest.raises(InvalidInput, match="binary"):
        decode(b"\x00\x01\x02\x00\x00" * 20, "utf-8")
