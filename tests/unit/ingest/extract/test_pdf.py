"""PDF: text page by page, with the facts of its metadata; a damaged file is a named error."""

from __future__ import annotations

import base64
import io
import os
import resource
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pypdf import PdfWriter

from sluice.contracts.document import Document, Provenance
from sluice.contracts.errors import InvalidInput, Unavailable
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.tokens import load_tokenizer
from sluice.ingest.extract import jailed, pdf
from sluice.ingest.extract.extract import extract, extract_document
from sluice.ingest.settings import ChunkSettings
from tests.support.pdf_files import ENDLESS, pdf_of, pdf_of_entries


def test_pages_and_metadata_are_kept() -> None:
    found = extract(pdf_of("First page text", "Second page text", title="A paper"), "application/pdf")
    assert [page.strip() for page in found.text.split("\f")] == ["First page text", "Second page text"]
    assert (found.title, found.author, found.form) == ("A paper", "Ada Example", "pages")
    assert found.published_at == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_pages_are_sections() -> None:
    data = base64.b64encode(pdf_of("The first page of it", "The second page of it"))
    source = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))
    document = Document(id="p", media_type="application/pdf", provenance=source, data=data)
    found = chunk_document(document, extract_document(document), ChunkSettings(), load_tokenizer(None))
    assert [chunk.section_path for chunk in found.chunks] == [("Page 1",), ("Page 2",)]
    assert [chunk.start_line for chunk in found.chunks] == [1, 3]


def test_a_pdf_sent_as_html_is_a_pdf() -> None:
    assert extract(pdf_of("Text"), "text/html").media_type == "application/pdf"


def test_a_page_without_text_lowers_the_confidence() -> None:
    scanned = extract(pdf_of("", ""), "application/pdf")
    assert (scanned.text, scanned.confidence) == ("", 0.0)


def test_an_encrypted_file_is_refused() -> None:
    writer = PdfWriter(clone_from=io.BytesIO(pdf_of("Text")))
    writer.encrypt("password", algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    with pytest.raises(InvalidInput, match="encrypted"):
        extract(stream.getvalue(), "application/pdf")


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        extract(pdf_of("Text")[:40], "application/pdf")


# A hostile file: it costs its own reading, and nothing else.


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.slow
def test_many_entries_of_one_long_page_end_by_name_within_seconds_and_the_next_file_is_read() -> None:
    body = pdf_of_entries(2_000, ENDLESS)
    assert len(body) < 60_000
    before, started = children(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with pytest.raises(InvalidInput, match=r"takes more than \d+ s to read"):
        extract(body, "application/pdf")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - started < 30
    assert children() == before
    assert extract(pdf_of("Text"), "application/pdf").text == "Text"


def test_our_own_process_spends_no_time_and_no_memory_on_a_file() -> None:
    body = pdf_of_entries(30, b"BT /F1 12 Tf " + b"(a) Tj " * 1_500 + b"ET")
    started = time.thread_time()
    assert extract(body, "application/pdf").text.count("\f") == 29
    assert time.thread_time() - started < 0.5


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [("MOST_CHARS", 100, "more than 100 characters"), ("WALL_SECONDS", 0.01, "takes more than 0.01 s")],
)
def test_each_limit_has_its_name(monkeypatch: pytest.MonkeyPatch, limit: str, value: float, words: str) -> None:
    monkeypatch.setattr(pdf, limit, value)
    before = children()
    with pytest.raises(InvalidInput, match=words):
        extract(pdf_of("many words on a page " * 20), "application/pdf")
    assert children() == before


def test_a_file_that_unfolds_in_memory_ends_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "ADDRESS_SPACE_BYTES", 150_000_000)
    with pytest.raises(InvalidInput, match="more than 150000000 bytes of memory"):
        extract(pdf_of_entries(1, b"BT " + b" " * 60_000_000 + b"ET"), "application/pdf")


@pytest.mark.parametrize("code", ["raise RuntimeError('x')", "assert False", "import zlib; raise zlib.error('x')"])
def test_whatever_the_reader_stumbles_on_is_a_damaged_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str
) -> None:
    broken = f"from sluice.ingest.extract import pdf_child\ndef read(*_):\n    {code}\npdf_child.read = read\n"
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {jailed.COMMAND[-1]!r}]; import broken; from sluice.ingest.extract.child import main; main(*sys.argv[1:])"
    (tmp_path / "broken.py").write_text(broken)
    monkeypatch.setattr(jailed, "COMMAND", (sys.executable, "-B", "-c", program))
    with pytest.raises(InvalidInput, match="cannot be read"):
        extract(pdf_of("Text"), "application/pdf")


@pytest.mark.parametrize(
    ("ending", "error"), [(signal.SIGSEGV, InvalidInput), (signal.SIGABRT, InvalidInput), (signal.SIGKILL, Unavailable)]
)
def test_a_reader_that_dies_says_how(
    monkeypatch: pytest.MonkeyPatch, ending: signal.Signals, error: type[Exception]
) -> None:
    dying = f"import os, sys; sys.stdin.buffer.read(); os.kill(os.getpid(), {ending.value})"
    monkeypatch.setattr(jailed, "COMMAND", (sys.executable, "-c", dying))
    with pytest.raises(error, match=ending.name):
        extract(pdf_of("Text"), "application/pdf")


def test_a_reader_that_does_not_start_is_no_fault_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jailed, "COMMAND", ("/no/such/program",))
    with pytest.raises(Unavailable, match="did not start"):
        extract(pdf_of("Text"), "application/pdf")


def test_many_files_are_read_at_once() -> None:
    with ThreadPoolExecutor(4) as threads:
        texts = threads.map(lambda n: extract(pdf_of(f"Page {n}"), "application/pdf").text, range(8))
        assert list(texts) == [f"Page {n}" for n in range(8)]


def test_the_limits_hold_for_the_child_alone() -> None:
    before = [resource.getrlimit(kind) for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS)]
    extract(pdf_of("Text"), "application/pdf")
    assert [resource.getrlimit(kind) for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS)] == before
