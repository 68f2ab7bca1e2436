"""Text of a PDF counts where its reader sees it. However it is hidden, the pictures of the page tell."""

from __future__ import annotations

import pytest

from bench.redteam.channels import pdf
from sluice.ingest.extract.extract import extract
from sluice.ingest.extract.pdf_child import read
from tests.support.pdf_files import pdf_of

SECRET = "/F1 12 Tf 72 400 Td (SECRET words of mine) Tj"
SHADING = (
    "/Shading << /S0 << /ShadingType 2 /ColorSpace /DeviceGray /Coords [0 0 600 0] /Extend [true true] "
    "/Function << /FunctionType 2 /Domain [0 1] /C0 [0.4] /C1 [0.9] /N 1 >> >> >>"
)
SCAN = "q {0} 0 0 24 60 392 cm BI /W 16 /H 1 /BPC 8 /CS /G ID " + "\x00\xff" * 8 + " EI Q "


def text_of(content: str) -> str:
    return str(read(pdf(content, extra=SHADING), 1, 10_000)["pages"][0])


@pytest.mark.parametrize(
    "content",
    [
        f"q 0 0 10 10 re W n BT {SECRET} ET Q",
        f"q 72 400 m 72 400 l W n BT {SECRET} ET Q",
        f"BT 7 Tr {SECRET} ET",
        f"BT {SECRET} ET 1 g 60 390 400 40 re f",
        f"BT {SECRET} ET 0 g 60 390 400 40 re f",
        f"BT {SECRET} ET q 400 0 0 40 60 390 cm BI /W 2 /H 1 /BPC 8 /CS /G ID \x40\x90 EI Q",
        f"BT {SECRET} ET q 60 390 400 40 re W n /S0 sh Q",
        f"BT {SECRET} ET 60 w 1 G 0 405 m 600 405 l S",
        f"BT {SECRET} ET 1 g 1 G BT 2 Tr 30 w /F1 12 Tf 72 400 Td (WWWWWWWWWWWWWWWW) Tj ET",
        "q 1 0 0 0.02 72 400 cm BT /F1 12 Tf (SECRET words of mine) Tj ET Q",
        "q 1 0 1 0.01 72 400 cm BT /F1 12 Tf (SECRET words of mine) Tj ET Q",
        "q 1 0 0 0 72 400 cm BT /F1 12 Tf (SECRET words of mine) Tj ET Q",
        f"BT 1 Tz {SECRET} ET",
        f"BT -7 Tc {SECRET} ET",
        f"BT 900 Ts {SECRET} ET",
        "BT /F1 12 Tf 72 400 Td [-90000 (SECRET words of mine)] TJ ET",
        "BT /F1 9000 Tf 72 400 Td (SECRET words of mine) Tj ET",
        f"BT 1 Tr 1 G {SECRET} ET",
        f"BT 2 Tr 1 G 1 g 0 w {SECRET} ET",
        f"BT 1 Tr 60 w {SECRET} ET",
        f"BT 1 Tr [0.01 900] 0 d {SECRET} ET",
        f"/Pattern cs /P0 scn BT {SECRET} ET",
        f"1 g BT {SECRET} ET 0 g BT /F1 12 Tf 72 400 Td (Numbers of valves) Tj ET",
        "1 g BT /F1 12 Tf 72 700 Td (SECRET words of mine) Tj ET",
        "/Span << /ActualText (SECRET words of mine) >> BDC BT /F1 12 Tf 72 400 Td (Open) Tj ET EMC",
        "/OC /L0 BDC BT /F1 12 Tf 72 400 Td (SECRET words of mine) Tj ET EMC",
        SCAN.format(300) + f"BT 3 Tr {SECRET} ET",  # the page has other text: it is no scan
    ],
)
def test_text_that_a_page_does_not_show_is_left_out(content: str) -> None:
    found = text_of(content)
    assert "SECRET" not in found
    assert "words" not in found
    assert found.count("two bar") == 6


@pytest.mark.parametrize(
    "content",
    [
        "BT /F1 12 Tf 72 400 Td (SHOWN) Tj ET",
        "q 60 390 400 40 re W n BT /F1 12 Tf 72 400 Td (SHOWN) Tj ET Q",
        "0 0.3 0.6 rg 50 380 500 60 re f 1 g BT /F1 12 Tf 72 400 Td (SHOWN) Tj ET",
        "0.5 g BT /F1 9 Tf 72 400 Td (SHOWN) Tj ET",
        "BT 1 Tr 0.5 w /F1 30 Tf 72 400 Td (SHOWN) Tj ET",
        "BT 70 Tz /F1 8 Tf 72 400 Td (SHOWN) Tj ET",
        "q 0 1 -1 0 300 400 cm BT /F1 12 Tf (SHOWN) Tj ET Q",
        "BT /F1 12 Tf 72 400 Td (SHOWN) Tj ET BT /F1 12 Tf 72.3 400 Td (SHOWN) Tj ET",
        "BT /F1 12 Tf 72 400 Td (S) Tj (H) Tj (O) Tj (W) Tj (N) Tj ET",
        "0.8 g q 0.7 0.7 -0.7 0.7 200 200 cm BT /F1 60 Tf (DRAFT) Tj ET Q 0 g BT /F1 12 Tf 240 300 Td (SHOWN) Tj ET",
    ],
)
def test_text_that_a_page_shows_is_kept(content: str) -> None:
    assert "SHOWN" in text_of(content)


def test_pages_are_seen_as_they_are_cut_and_turned() -> None:
    assert "Beside" not in extract(_with_box(b"/CropBox [0 0 612 650]"), "application/pdf").text
    assert "Beside" in extract(_with_box(b"/CropBox [60 600 612 792] /Rotate 90"), "application/pdf").text


def test_a_scan_has_the_text_of_its_picture() -> None:
    def scan(width: int) -> str:
        drawn = SCAN.format(width) + "BT 3 Tr /F1 12 Tf 72 400 Td (OF THE PICTURE) Tj ET"
        return str(read(pdf(drawn, lines=0), 1, 1_000)["pages"][0])

    assert scan(150) == "OF THE PICTURE"
    assert scan(1) == ""


def test_words_that_a_line_cuts_are_whole() -> None:
    body = pdf_of("the polynomials of Feb-) Tj 0 -14 Td (ruary were found")
    assert "of February were" in extract(body, "application/pdf").text


@pytest.mark.parametrize(
    ("before", "behind", "words"), [("0 g", "", "机器学习"), ("1 g", "", ""), ("0 g", "1 g 0 690 500 40 re f", "")]
)
def test_letters_of_a_font_that_the_file_lacks_are_judged_by_others_in_their_place(
    before: str, behind: str, words: str
) -> None:
    font = (
        b"/Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H /DescendantFonts [<< /Type /Font /Subtype "
        b"/CIDFontType0 /BaseFont /STSong-Light /CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 2 >> "
        b"/FontDescriptor << /Type /FontDescriptor /FontName /STSong-Light /Flags 6 /FontBBox [-25 -254 1000 880] "
        b"/ItalicAngle 0 /Ascent 880 /Descent -120 /CapHeight 880 /StemV 93 >> >>]"
    )
    text = "机器学习".encode("utf-16-be").hex()
    body = pdf(f"{before} BT /F1 12 Tf 72 700 Td <{text}> Tj ET {behind}", lines=0)
    body = body.replace(b"/Subtype /Type1 /BaseFont /Helvetica", font)
    assert read(body, 1, 1_000)["pages"] == [words]


def _with_box(box: bytes) -> bytes:
    return pdf_of("Beside").replace(b"/Type /Page\n", b"/Type /Page " + box + b"\n")
