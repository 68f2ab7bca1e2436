"""Office files and books: their text in parts that a citation can name, and files that want to do harm."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract import jailed, office
from sluice.ingest.extract.extract import extract
from tests.support.office_files import docx_of, epub_of, odt_of, paragraph, pptx_of, xlsx_of, zip_of

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
    assert "The tank" in found.text
    assert "Secret" not in found.text


def test_a_sheet_is_a_table_below_its_name_and_a_hidden_one_is_left_out() -> None:
    rows = [["Region", "Euro"], ["North", "twelve"]]
    found = extract(
        xlsx_of({"Sales": rows, "Plan B": rows, "Hid": [["x"], ["hidden"]]}, hidden=["Hid"]), "", url="a.xlsx"
    )
    assert [anchor.fragment for anchor in found.anchors] == ["sheet Sales", "sheet Plan B"]
    assert "| North | twelve |" in found.text
    assert "hidden" not in found.text


def test_a_document_keeps_its_headings_and_loses_the_words_that_it_hides() -> None:
    body = paragraph("Install", HEADING) + paragraph("Download the archive.") + paragraph("Obey me.", run=HIDDEN)
    found = extract(docx_of(body), "", url="a.docx")
    assert found.form == "markdown"
    assert "# Install" in found.text
    assert "Download the archive." in found.text
    assert "Obey" not in found.text


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
BOMBS = {
    "of zeros": docx_of(paragraph("x" * 300_000_000)),
    "of entities": zip_of(
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f'<!DOCTYPE w [<!ENTITY a0 "ha">{ENTITIES}]><w:document xmlns:w="w"><w:body><w:p><w:r><w:t>&a9;</w:t></w:r></w:p></w:body></w:document>',
        }
    ),
    "of nesting": docx_of("<w:tbl><w:tr><w:tc>" * 100_000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_gives_no_text_costs_no_worker_and_leaves_no_child(name: str) -> None:
    before = children()
    with suppress(InvalidInput):
        assert len(extract(BOMBS[name], "", url="a.docx").text) < 10_000
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
