"""An upload from the door to the citation: slides and sheets are named, one broken file costs no other, and the same
files again are no work."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.contracts.api import Upload
from sluice.contracts.retrieval import Query
from sluice.index.search.citation_link import format_source
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.contents import files_held
from sluice.workers.service.read_files import UNCHANGED, documents_in
from sluice.workers.service.uploads import Received, UploadDesk
from tests.support.in_process import Instance, MakeInstance
from tests.support.office_files import docx_of, pptx_of, xlsx_of, zip_of
from tests.support.searching import searched

pytest.importorskip("kreuzberg")

SLIDES = [f"Slide about number {number}" for number in range(3)] + ["The badger digs a sett under the hedge"]


def uploaded(instance: Instance, folder: Path, **files: bytes) -> Upload:
    received = []
    for place, (name, body) in enumerate(files.items()):
        path = folder / str(place)
        path.write_bytes(body)
        received.append(Received(name, path, len(body), hashlib.sha256(body).hexdigest()))
    desk = UploadDesk(instance.context, instance.service)
    begun = desk.receive("default", received)
    for _ in range(3):
        instance.works("chunk", "embed", "index")
    return desk.one(begun.id, OWN_MACHINE)


def test_an_upload_is_cited_by_slide_and_sheet_and_comes_again_for_nothing(
    make_instance: MakeInstance, tmp_path: Path
) -> None:
    instance = make_instance()
    files = {
        "deck.pptx": pptx_of(SLIDES),
        "all.zip": zip_of(
            {
                "book.xlsx": xlsx_of({"Sales": [["Animal", "Price"], ["Otter", "nine crowns"]]}),
                "broken.docx": docx_of("")[:300],
                "empty.docx": docx_of(""),
            }
        ),
    }
    upload = uploaded(instance, tmp_path, **files)
    told = {line.name: (line.status, line.reason) for line in upload.files}
    assert told["deck.pptx"] == ("indexed", None)
    assert told["all.zip/book.xlsx"] == ("indexed", None)
    assert told["all.zip/broken.docx"][0] == "refused"
    assert told["all.zip/empty.docx"] == ("failed", "no_text")
    for question, source in (
        ("badger sett hedge", "deck.pptx:slide 4"),
        ("price of an otter", "all.zip/book.xlsx:sheet Sales"),
    ):
        found, _ = searched(Query(query=question, top_k=1), instance.context)
        assert format_source(found.chunks[0]) == source
    again = uploaded(instance, tmp_path, **{"deck.pptx": files["deck.pptx"]})
    assert [line.status for line in again.files] == ["unchanged"]
    assert again.status == "finished"


def test_an_upload_of_files_that_cannot_be_read_ends_and_says_why(make_instance: MakeInstance, tmp_path: Path) -> None:
    instance = make_instance()
    upload = uploaded(instance, tmp_path, **{"picture.png": b"\x89PNG\r\n\x1a\n" + bytes(100)})
    assert [(line.status, line.reason) for line in upload.files] == [("refused", "image/png, not text")]
    assert upload.status == "failed"
    assert [gap.subject for gap in instance.gaps(upload.id)] == ["picture.png"]


def test_a_folder_is_read_again_from_where_it_broke_off(make_instance: MakeInstance, tmp_path: Path) -> None:
    """What the corpus has is not read again; what it lacks is, and a broken file costs no other."""
    instance, folder = make_instance(), tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("The badger digs a sett.")
    (folder / "broken.docx").write_bytes(docx_of("")[:300])
    (folder / "more.zip").write_bytes(zip_of({"b.md": "The otter swims.", "c.bin": bytes(99)}))

    def read() -> tuple[list[str], dict[str, str]]:
        skipped: dict[str, str] = {}
        held = files_held(instance.context.readers, "default")
        now = datetime.now(UTC)
        found = list(
            documents_in([folder], now=now, on_skip=lambda path, why: skipped.update({path.name: why}), known=held)
        )
        if found:
            instance.service.ingest("default", found)
            for _ in range(3):
                instance.works("chunk", "embed", "index")
        return [one.file_path or "" for one in found], skipped

    found, skipped = read()
    assert found == ["docs/a.md", "docs/more.zip/b.md"]
    assert skipped.keys() == {"broken.docx", "c.bin"}
    (folder / "d.md").write_text("The vole hides.")
    found, skipped = read()
    assert found == ["docs/d.md"]
    assert (skipped["a.md"], skipped["b.md"]) == (UNCHANGED, UNCHANGED)
