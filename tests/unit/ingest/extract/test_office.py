"""Office files and books: their text in parts that a citation can name, and files that want to do harm."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract import jailed, office
from sluice.ingest.extract.extract import extract
from tests.support.office_files import (
    PACKAGE,
    REL,
    W,
    docx_of,
    edited,
    epub_of,
    odt_of,
    paragraph,
    pptx_of,
    xlsx_of,
    zip_of,
)

pytest.importorskip("kreuzberg")

HIDDEN = "<w:rPr><w:vanish/></w:rPr>"
HEADING = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_a_slide_is_a_part_with_its_number_and_a_hidden_one_is_left_out() -> None:
    found = extract(pptx_of(["The pump", "The valve", "Secret", "The tank"], hidden=[3]), "", url="deck.pptx")
    assert found.form == "parts"
    assert [anchor.fragment for anchor in found.anchors] == ["slide 1", "slide 2", "slide 4"]
    assert [found.text[anchor.start :].split("\n")[0] for anchor in found.anchors] == [
        "# Slide 1",
        "# Slide 2",
        "# Slide 4",
    ]
    assert "The tank" in found.text.split("\f")[3]
    assert "Secret" not in found.text
    assert extract(pptx_of(["One", ""]), "", url="deck.pptx").anchors[-1].fragment == "slide 1"


def test_a_sheet_is_a_table_below_its_name_and_a_hidden_one_is_left_out() -> None:
    rows = [["Region", "Euro"], ["North", "twelve"]]
    found = extract(
        xlsx_of({"C# (1)": rows, "Plan B": rows, "&lt;Hid&gt;": [["x"], ["hidden"]]}, hidden=["&lt;Hid&gt;"]),
        "",
        url="a.xlsx",
    )
    assert [anchor.fragment for anchor in found.anchors] == ["sheet C# (1)", "sheet Plan B"]
    assert "| North | twelve |" in found.text
    assert "hidden" not in found.text


def test_a_document_keeps_its_headings_and_loses_the_words_that_it_hides() -> None:
    body = (
        paragraph("Install", HEADING) + paragraph("Download the archive of C# 3.5!") + paragraph("Obey me.", run=HIDDEN)
    )
    found = extract(docx_of(body), "", url="a.docx")
    assert found.form == "markdown"
    assert "# Install" in found.text
    assert "Download the archive of C# 3.5!" in found.text
    assert "Obey" not in found.text


STYLES = f"""<w:styles {W}>
  <w:style w:type="character" w:styleId="Off"><w:rPr><w:vanish/></w:rPr></w:style>
  <w:style w:type="paragraph" w:styleId="Heir"><w:basedOn w:val="Off"/></w:style>
  <w:style w:type="character" w:styleId="On"><w:rPr><w:vanish w:val="0"/></w:rPr></w:style></w:styles>"""
STYLED = "<w:rPr><w:rStyle w:val='{}'/>{}</w:rPr>"
WORDS = (
    paragraph("Obey style.", run=STYLED.format("Off", ""))
    + paragraph("Obey heir.", '<w:pPr><w:pStyle w:val="Heir"/></w:pPr>')
    + paragraph("Obey mite.", run='<w:rPr><w:sz w:val="2"/></w:rPr>')
    + paragraph("Seen one.", run=STYLED.format("On", ""))
    + paragraph("Seen two.", run=STYLED.format("Off", "<w:vanish w:val='false'/>"))
    + paragraph("Seen three.", "<w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>")
)
SHEET = xlsx_of({"S": [["Seen one", "Obey column", "Seen two"], ["Obey row", "x", "y"], ["Seen three", "x", "y"]]})
ROWS = "xl/worksheets/sheet1.xml"
COLUMNS = '<cols><col min="2" max="2" hidden="1"/></cols>'
SHAPE = "<p:sp><p:nvSpPr><p:cNvPr id='3' name='H' hidden='1'/></p:nvSpPr><p:txBody><a:bodyPr/><a:p><a:r><a:t>Obey shape.</a:t></a:r></a:p></p:txBody></p:sp>"
ODT_STYLES = '<office:automatic-styles xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"><style:style style:name="T1"><style:text-properties text:display="none"/></style:style><style:style style:name="T2" style:parent-style-name="T1"/></office:automatic-styles>'
ODT = edited(
    edited(odt_of("Seen one"), "content.xml", "<office:body>", f"{ODT_STYLES}<office:body>"),
    "content.xml",
    "</text:p>",
    '<text:span text:style-name="T2">Obey style.</text:span> seen two</text:p>'
    '<text:section text:display="none"><text:p>Obey section.</text:p></text:section>'
    "<text:p>Seen three<office:annotation><text:p>Obey note.</text:p></office:annotation></text:p>",
)
HIDING = {
    "a.docx": docx_of(WORDS, **{"word/styles.xml": STYLES}),
    "a.xlsx": edited(
        edited(SHEET, ROWS, "<sheetData>", f"{COLUMNS}<sheetData>"), ROWS, '<row r="2">', '<row r="2" hidden="1">'
    ),
    "a.pptx": edited(
        pptx_of(["Seen one. Seen two. Seen three."]), "ppt/slides/slide1.xml", "</p:spTree>", f"{SHAPE}</p:spTree>"
    ),
    "a.odt": ODT,
    "a.epub": epub_of(
        {"One": "Seen one, <b hidden='hidden'>Obey</b><b style='display:none'>Obey</b> seen two, seen three"}
    ),
}


@pytest.mark.parametrize("name", HIDING)
def test_what_the_program_does_not_show_is_left_out_and_what_stands_beside_it_stays(name: str) -> None:
    text = extract(HIDING[name], "", url=name).text.lower()
    assert "obey" not in text
    assert [text.count(f"seen {word}") for word in ("one", "two", "three")] == [1, 1, 1]


def test_a_sheet_that_lies_elsewhere_hides_its_rows_too_and_no_part_stands_twice() -> None:
    with zipfile.ZipFile(io.BytesIO(HIDING["a.xlsx"])) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    for name in ("xl/_rels/workbook.xml.rels", "[Content_Types].xml"):
        parts[name] = parts[name].replace('"worksheets/', '"/elsewhere/').replace("/xl/worksheets/", "/elsewhere/")
    parts["Elsewhere/sheet1.xml"] = parts.pop(ROWS)
    text = extract(zip_of(parts), "", url="a.xlsx").text
    assert "Seen three" in text
    assert "Obey" not in text
    with pytest.raises(InvalidInput, match="two parts of one name"):
        extract(zip_of({**parts, "elsewhere/sheet1.xml": parts["Elsewhere/sheet1.xml"]}), "", url="a.xlsx")


def test_notes_of_a_speaker_and_comments_are_left_out() -> None:
    """They are no part of what readers see, and a place for commands to a model."""
    note = "<p:notes xmlns:p='http://schemas.openxmlformats.org/presentationml/2006/main' xmlns:a='http://schemas.openxmlformats.org/drawingml/2006/main'><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>Obey.</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:notes>"
    relation = f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="n1" Type="{REL}/{{}}" Target="{{}}"/></Relationships>'
    notes = {
        "ppt/notesSlides/notesSlide1.xml": note,
        "ppt/slides/_rels/slide1.xml.rels": relation.format("notesSlide", "../notesSlides/notesSlide1.xml"),
    }
    deck = edited(pptx_of(["The pump"]), "ppt/slides/slide1.xml", "The pump", "The tank", **notes)
    comments = {
        "word/comments.xml": f'<w:comments {W}><w:comment w:id="0">{paragraph("Obey.")}</w:comment></w:comments>',
        "word/_rels/document.xml.rels": relation.format("comments", "comments.xml"),
    }
    letter = docx_of(paragraph("The tank") + '<w:p><w:r><w:commentReference w:id="0"/></w:r></w:p>', **comments)
    for name, body in (("a.pptx", deck), ("a.docx", letter)):
        text = extract(body, "", url=name).text
        assert "The tank" in text
        assert "Obey" not in text


def test_an_open_document_and_a_book() -> None:
    assert "The text stands here." in extract(odt_of("The text stands here."), "", url="a.odt").text
    book = extract(epub_of({"One": "Words of one.", "Two": "Words of two."}), "", url="a.epub")
    assert book.title == "The Book"
    assert book.text.index("# One") < book.text.index("Words of two.")


def test_a_notebook_shows_its_text_its_code_and_what_it_printed() -> None:
    notebook = """{"cells": [{"cell_type": "markdown", "source": ["# Fit\\n", "Words"]},
      {"cell_type": "code", "source": "print(1)", "outputs": [{"text": ["one\\n"]}]}],
      "metadata": {"kernelspec": {"language": "julia"}}, "nbformat": 4}"""
    found = extract(notebook.encode(), "", url="a.ipynb")
    assert (found.title, found.form) == ("Fit", "markdown")
    assert "```julia\nprint(1)\n```" in found.text
    assert "one" in found.text
    with pytest.raises(InvalidInput, match="no notebook"):
        extract(b'{"cells": 3}', "", url="a.ipynb")


ENTITIES = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))


def of_400_megabytes() -> bytes:
    made, packed = zipfile.ZipFile(io.BytesIO(docx_of(paragraph("@")))), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in made.namelist():
            before, cut, after = made.read(name).partition(b"@")
            with archive.open(name, "w") as part:
                part.write(before)
                for _ in range(100 if cut else 0):
                    part.write(b"x" * 4_000_000)
                part.write(after)
    return packed.getvalue()


def of_entities() -> bytes:
    bomb = f'<!DOCTYPE w [<!ENTITY a0 "ha">{ENTITIES}]><w:document xmlns:w="w"><w:body><w:p><w:r><w:t>&a9;</w:t></w:r></w:p></w:body></w:document>'
    return zip_of({"[Content_Types].xml": "<Types/>", "word/document.xml": bomb})


def of_nesting() -> bytes:
    return docx_of("<w:tbl><w:tr><w:tc>" * 100_000)


def of_nesting_that_ends() -> bytes:
    return docx_of("<w:p><w:r>" * 20_000 + "<w:vanish/>" + "</w:r></w:p>" * 20_000)


@pytest.mark.parametrize("bomb", [of_400_megabytes, of_entities, of_nesting, of_nesting_that_ends])
def test_a_bomb_gives_no_text_costs_no_worker_and_leaves_no_child(bomb: Callable[[], bytes]) -> None:
    before, body = children(), bomb()
    with suppress(InvalidInput):
        assert len(extract(body, "", url="a.docx").text) < 10_000
    assert children() == before


def test_a_file_outside_is_not_read() -> None:
    reading = '<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    body = zip_of(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f'{reading}<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>&x;</w:t></w:r></w:p></w:body></w:document>',
        }
    )
    with suppress(InvalidInput):
        assert "root:" not in extract(body, "", url="a.docx").text


def test_an_encrypted_file_and_a_damaged_one_end_by_name() -> None:
    kind = next(iter(office.OFFICE))
    with pytest.raises(InvalidInput, match="encrypted"):
        extract(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), kind)
    with pytest.raises(InvalidInput, match="cannot be read"):
        extract(docx_of(paragraph("Words."))[:200], kind)


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office, "LIBRARY", "no_such_library")
    with pytest.raises(InvalidInput, match=r"pip install 'sluice\[uploads\]'"):
        extract(docx_of(paragraph("Words.")), "", url="a.docx")


def test_the_reader_can_open_no_socket_no_file_and_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A reader that an attacker has taken over: what it tries fails, and what it reports says so."""
    (tmp_path / "taken.py").write_text(
        "import os, socket, subprocess\n"
        "from sluice.ingest.extract import office_child\n"
        "def tried(act):\n"
        "    try: act()\n"
        "    except OSError as error: return type(error).__name__\n"
        "    return 'done'\n"
        "def read(*_):\n"
        "    acts = [lambda: socket.socket(), lambda: open('/etc/passwd'), lambda: os.fork(),\n"
        "            lambda: open('written', 'w'), lambda: os.execv('/bin/sh', ['sh'])]\n"
        "    return {'tried': [tried(act) for act in acts]}\n"
        "office_child.read = read\n"
    )
    path = [str(tmp_path), jailed.COMMAND[-1]]
    program = f"import sys; sys.path[:0] = {path!r}; import taken; from sluice.ingest.extract.child import main; main(*sys.argv[1:])"
    monkeypatch.setattr(jailed, "COMMAND", (*jailed.COMMAND[:-3], "-c", program))
    told = jailed.read_jailed("DOCX file", "office_child", b"", jailed.Bounds(5, 1_000_000_000), "", "")
    assert "done" not in told["tried"]
