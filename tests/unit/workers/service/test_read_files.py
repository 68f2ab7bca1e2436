"""Files become documents: what is read, what is left out, and what is refused."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.contracts.document import Document, document_id_for
from sluice.contracts.errors import InvalidInput
from sluice.trust.signature import make_key, sign
from sluice.workers.service import contents
from sluice.workers.service.read_files import documents_in

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PDF_BYTES = b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\n"


class Skips(list[tuple[str, str]]):
    """Every skip as (name, reason)."""

    def __call__(self, path: Path, reason: str) -> None:
        self.append((path.name, reason))

    def reason(self, name: str) -> str:
        return dict(self)[name]


def read(*paths: Path, skips: Skips | None = None, max_file_bytes: int = 10_000) -> list[Document]:
    return list(
        documents_in(paths, now=NOW, on_skip=skips if skips is not None else Skips(), max_file_bytes=max_file_bytes)
    )


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_file_is_one_document_under_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Title\n\nwords é")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    (document,) = read(path)
    assert (document.id, document.file_path) == (document_id_for("notes.md"), "notes.md")
    assert (document.media_type, document.text) == ("text/markdown", "# Title\n\nwords é")
    assert document.provenance.source == "file"
    assert document.provenance.fetched_at == NOW
    assert document.provenance.published_at is None, "a file's time of change is no date of publication"


def test_a_folder_is_read_in_order_and_its_name_leads_every_path(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "b.py").write_text("x = 1\n")
    (root / "a.txt").write_text("a")
    assert [(d.file_path, d.media_type) for d in read(root)] == [
        ("project/a.txt", "text/plain"),
        ("project/src/b.py", "text/x-python"),
    ]


def test_the_current_folder_is_named_by_its_real_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "here"
    root.mkdir()
    (root / "a.txt").write_text("a")
    monkeypatch.chdir(root)
    assert [document.file_path for document in read(Path("."))] == ["here/a.txt"]


def test_what_nobody_meant_is_left_out_and_each_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "project"
    for folder in (".git", "node_modules", "env", "__pycache__"):
        (root / folder).mkdir(parents=True)
        (root / folder / "x.txt").write_text("x")
    (root / "env" / "pyvenv.cfg").write_text("home = /usr/bin")
    (root / ".env").write_text("SECRET=1")
    (root / "link.txt").symlink_to(tmp_path / "elsewhere.txt")
    (tmp_path / "elsewhere.txt").write_text("outside")
    (root / "loop").symlink_to(root)
    (root / "kept.txt").write_text("kept")
    skips = Skips()
    assert [document.file_path for document in read(root, skips=skips)] == ["project/kept.txt"]
    assert {name for name, _ in skips} == {".git", ".env", "node_modules", "env", "__pycache__", "link.txt", "loop"}
    assert skips.reason("env") == "a virtual environment"
    assert skips.reason("loop") == "a symbolic link"


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("picture.png", b"\x89PNG\r\n\x1a\n" + b"\x00" * 20, "image/png, not text"),
        ("logo.svg", b'<?xml version="1.0"?>\n<svg><path d="M46.7 36.0 4"/></svg>\n', "image/svg+xml, not text"),
        ("plot.ps", b"%!PS-Adobe-3.0\n0 0 moveto\n", "application/postscript, not text"),
        ("archive.txt", b"PK\x03\x04 and so on", "application/zip, not text"),
        ("program", b"\x7fELF" + bytes(range(60)), "binary"),
        ("samples.dat", bytes(range(256)) * 4, "binary"),
        ("nothing.txt", b" \n\t\n", "empty"),
        ("large.txt", b"a" * 10_001, "larger than 10,000 bytes"),
    ],
)
def test_a_file_without_readable_text_is_left_out(tmp_path: Path, name: str, body: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(body)
    skips = Skips()
    assert read(tmp_path / name, skips=skips) == []
    assert skips == [(name, reason)]


def test_a_pipe_is_left_out_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    skips = Skips()
    assert read(tmp_path, skips=skips) == []
    assert skips == [("pipe", "not a regular file")]


@pytest.mark.parametrize(
    "body",
    ["naïve café\n".encode(), "naïve café\n".encode("cp1252"), "naïve café\n".encode("utf-16")],
    ids=["utf-8", "windows-1252", "utf-16"],
)
def test_text_is_decoded_whatever_wrote_it(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(body)
    assert [document.text for document in read(tmp_path / "a.txt")] == ["naïve café\n"]


def test_a_pdf_travels_as_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "paper.pdf").write_bytes(PDF_BYTES)
    (document,) = read(tmp_path / "paper.pdf")
    assert (document.media_type, document.text, document.data) == ("application/pdf", None, PDF_BYTES)
    assert Document.model_validate_json(document.model_dump_json()) == document


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("a")
    skips = Skips()
    assert [d.file_path for d in read(root, root / "a.txt", skips=skips)] == ["project/a.txt"]
    assert skips == [("a.txt", "read already")]


def test_two_files_that_would_replace_each_other_are_refused(tmp_path: Path) -> None:
    for parent in ("one", "two"):
        (tmp_path / parent / "docs").mkdir(parents=True)
        (tmp_path / parent / "docs" / "a.txt").write_text(parent)
    with pytest.raises(InvalidInput, match="common parent"):
        read(tmp_path / "one" / "docs", tmp_path / "two" / "docs")


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no file or folder .*gone"):
        read(tmp_path / "gone")


def test_a_beir_file_is_one_document_a_line(tmp_path: Path) -> None:
    lines: list[object] = [
        {
            "_id": "4983",
            "title": "Microstructure",
            "text": "Alterations of the brain.",
            "metadata": {"year": 2001, "x": []},
        },
        {"_id": 7, "text": "No title."},
        {"_id": "title-only", "title": "Only a title", "text": ""},
    ]
    first, second, third = read(write_lines(tmp_path / "corpus.jsonl", lines))
    assert (first.id, first.title, first.text) == ("4983", "Microstructure", "Alterations of the brain.")
    assert (first.media_type, first.file_path, first.metadata) == ("text/plain", None, {"year": 2001})
    assert (first.provenance.source, first.provenance.published_at) == ("file", None)
    assert (second.id, second.title) == ("7", None)
    assert third.text == "Only a title"


def test_a_beir_line_without_words_is_left_out(tmp_path: Path) -> None:
    skips = Skips()
    path = write_lines(tmp_path / "c.jsonl", [{"_id": "a", "text": "a"}, {"_id": "b", "text": " "}])
    assert [document.id for document in read(path, skips=skips)] == ["a"]
    assert skips == [("c.jsonl:2", "empty")]


def test_any_other_jsonl_is_text(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.jsonl", [{"level": "info"}, {"level": "error"}])
    (document,) = read(path)
    assert (document.file_path, document.media_type) == ("log.jsonl", "text/plain")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{broken", "Invalid JSON"),
        ("[1]", "Input should be an object"),
        ('{"text": "no id"}', "_id: Field required"),
        ('{"_id": true, "text": "x"}', "_id.str: Input should be a valid string"),
        ('{"_id": "", "text": "x"}', "id: String should have at least 1 character"),
        ('{"_id": "b"}', "text: Field required"),
        ('{"_id": "b", "text": 5}', "text: Input should be a valid string"),
        ('{"_id": "b", "text": "x", "title": []}', "title: Input should be a valid string"),
        ('{"_id": "a", "text": "again"}', "a second document 'a'"),
        ('{"_id": "%s", "text": "x"}' % ("i" * 513), "id: "),
        ('{"_id": "b", "text": "%s"}' % ("x" * 10_000), "longer than 10,000 bytes"),
        ('{"_id": "b", "text": "lone \\ud800"}', "unexpected end of hex escape"),
        ("[" * 9_000, "Invalid JSON"),
    ],
)
def test_a_malformed_line_is_left_out_by_file_and_line_and_no_other(tmp_path: Path, line: str, problem: str) -> None:
    path, skips = tmp_path / "corpus.jsonl", Skips()
    path.write_text('{"_id": "a", "text": "first"}\n\n' + line + '\n{"_id": "c", "text": "last"}\n')
    assert [document.id for document in read(path, skips=skips)] == ["a", "c"]
    [(where, reason)] = skips
    assert where == "corpus.jsonl:3"
    assert problem in reason


def test_documents_come_one_at_a_time(tmp_path: Path) -> None:
    """A fault in the last line is met only when the last line is reached."""
    path, skips = tmp_path / "corpus.jsonl", Skips()
    path.write_text('{"_id": "a", "text": "first"}\n{broken\n')
    documents = documents_in([path], now=NOW, on_skip=skips)
    assert next(documents).id == "a"
    assert not skips
    assert not list(documents)
    assert skips


def test_a_file_that_breaks_its_reader_is_left_out_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.txt", "odd.xml", "z.txt"):
        (tmp_path / name).write_text("<text/>")

    def with_bug(text: str) -> object:
        raise ValueError("planted")

    monkeypatch.setattr(contents, "parse_report", with_bug)
    skips = Skips()
    assert len(read(tmp_path, skips=skips)) == 2
    assert "planted" in skips.reason("odd.xml")


def test_a_signature_beside_a_file_is_verified_and_is_no_document(tmp_path: Path) -> None:
    key, folder, skips = tmp_path / "release.pem", tmp_path / "docs", Skips()
    folder.mkdir()
    keys = {"release": make_key(key)}
    for name in ("good.md", "changed.md", "plain.md"):
        (folder / name).write_text("A lease is renewed.")
        if name != "plain.md":
            signature, _ = sign(key, "release", (folder / name).read_bytes(), None)
            (folder / f"{name}.sig").write_text(signature.model_dump_json())
    (folder / "changed.md").write_text("A lease is forged.")
    read = list(documents_in([folder], now=NOW, on_skip=skips, keys=keys))
    assert {document.file_path: document.provenance.signed_by for document in read} == {
        "docs/good.md": "release",
        "docs/plain.md": None,
    }
    assert skips.reason("good.md.sig") == "a signature"
    assert "did not sign this content" in skips.reason("changed.md")


def test_a_signature_of_any_size_is_read_no_farther_than_one_can_be_long(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A lease ends.")
    with (tmp_path / "a.md.sig").open("wb") as file:
        file.truncate(3_000_000_000)  # sparse: more than this test may hold in memory
    skipped: list[tuple[Path, str]] = []
    tracemalloc.start()
    found = list(documents_in([tmp_path / "a.md"], now=NOW, on_skip=lambda *told: skipped.append(told)))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not found
    assert "is not one that `sluice sign` wrote" in skipped[0][1]
    assert peak_bytes < 100_000_000
