"""An upload from the door to the citation: slides and sheets are named, one broken file costs no other, and the same
files again are no work."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sluice.cli.agent import ingest
from sluice.contracts.api import Upload
from sluice.contracts.document import Document
from sluice.contracts.operations.forget import ForgetRequest
from sluice.contracts.retrieval import Query
from sluice.index.search.citation_link import format_source
from sluice.workers.service import uploads as service
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.contents import files_held
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.service.read_files import UNCHANGED, documents_in
from sluice.workers.service.uploads import Received, UploadDesk
from tests.support.in_process import Instance, MakeInstance
from tests.support.office_files import docx_of, pptx_of, xlsx_of, zip_of
from tests.support.searching import searched

pytest.importorskip("kreuzberg")

PICTURE = {"picture.png": b"\x89PNG\r\n\x1a\n" + bytes(100)}
SLIDES = [f"Slide about number {number}" for number in range(3)] + ["The badger digs a sett under the hedge"]


def uploaded(instance: Instance, files: dict[str, bytes], **more: Any) -> Upload:
    desk = UploadDesk(instance.context, instance.service)
    received = [Received(name, io.BytesIO(body)) for name, body in files.items()]
    begun = desk.receive("default", received, **more)
    for _ in range(3):
        instance.works("chunk", "embed", "index")
    return desk.one(begun.id, OWN_MACHINE)


def test_an_upload_is_cited_by_slide_and_sheet_and_comes_again_for_nothing(make_instance: MakeInstance) -> None:
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
    upload = uploaded(instance, files)
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
    deck = {"deck.pptx": files["deck.pptx"]}
    same = uploaded(instance, {**deck, **PICTURE})
    assert [line.status for line in same.files] == ["unchanged", "refused"]
    assert same.status == "finished"
    assert [line.status for line in uploaded(instance, deck, again=True).files] == ["indexed"]


def test_an_upload_of_files_that_cannot_be_read_ends_and_says_why(make_instance: MakeInstance) -> None:
    instance = make_instance()
    upload = uploaded(instance, PICTURE)
    assert [(line.status, line.reason) for line in upload.files] == [("refused", "image/png, not text")]
    assert upload.status == "failed"
    assert [gap.subject for gap in instance.gaps(upload.id)] == ["picture.png"]


def test_many_archives_have_a_limit_together(make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_BYTES", 15)
    packed = {f"{name}.zip": zip_of({"a.md": f"Of {name}."}) for name in ("otters", "badgers", "voles")}
    files = uploaded(make_instance(), packed).files
    assert [(line.name, line.status) for line in files] == [
        ("otters.zip/a.md", "indexed"),
        ("badgers.zip/a.md", "indexed"),
        ("voles.zip", "refused"),
    ]


def test_the_list_of_an_upload_goes_with_a_document_that_is_forgotten(make_instance: MakeInstance) -> None:
    """Its name and the hash of its bytes are nowhere then; of the other files the corpus says what has become."""
    instance = make_instance()
    files = {f"{name}.md": f"The {name} digs.".encode() for name in ("badger", "otter")}
    first, same = uploaded(instance, files), uploaded(instance, files)
    going, staying = (line.document_id for line in first.files)
    assert going
    desk = ForgetDesk(instance.context)
    request = ForgetRequest(document_id=going)
    desk.forget(request, OWN_MACHINE)
    instance.works("chunk", "embed", "index")
    assert desk.prove("default", request.selection, OWN_MACHINE).is_proven
    kept = [instance.context.blobs.named(blob.sha256) for blob in instance.context.blobs.kept()]
    assert not any(b"badger" in content for content in kept)
    uploads = UploadDesk(instance.context, instance.service)
    for upload in (first, same):
        told = {line.document_id: line.status for line in uploads.one(upload.id, OWN_MACHINE).files}
        assert told == {going: "failed", staying: "indexed"}


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


def test_a_large_folder_is_several_runs_and_what_broke_off_goes_on_from_there(
    make_instance: MakeInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance, folder = make_instance(), tmp_path / "animals"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.md").write_text(f"Of animal {number}.")
    monkeypatch.setattr(ingest, "MOST_DOCUMENTS", 2)

    def documents(*, breaks: bool) -> Iterator[Document]:
        held = files_held(instance.context.readers, "default")
        now = datetime.now(UTC)
        for count, one in enumerate(documents_in([folder], now=now, on_skip=lambda *_: None, known=held)):
            if breaks and count == 3:
                raise KeyboardInterrupt
            yield one

    with pytest.raises(KeyboardInterrupt):
        ingest.submit(instance.context, "default", documents(breaks=True), 60.0)
    for _ in range(3):
        instance.works("chunk", "embed", "index")
    left = [one.file_path for one in documents(breaks=False)]
    assert left == [f"animals/{number}.md" for number in (2, 3, 4)]
    runs = ingest.submit(instance.context, "default", documents(breaks=False), 60.0)
    assert [instance.context.ledger.run(run).status for run in runs] == ["open", "open"]
    for _ in range(3):
        instance.works("chunk", "embed", "index")
    shown = ingest.wait_here(instance.context, runs, 60.0, ingest.indexing_progress(quiet=True))
    assert (shown.value["status"], shown.value["run_ids"]) == ("finished", runs)
    assert not list(documents(breaks=False))
