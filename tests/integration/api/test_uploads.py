"""Uploads: a form is streamed to the disk, each file has its line, and nothing of a batch is lost because of one."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from sluice_client import SluiceClient

GUIDE = b"# Guide\n\nThe pump of the fountain is in the cellar.\n"


def zip_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return packed.getvalue()


def tar_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, body in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return packed.getvalue()


def send(http: TestClient, *files: tuple[str, bytes], **fields: str) -> Any:
    return http.post("/v1/uploads", files=[("file", one) for one in files], data=fields)


def test_each_file_has_its_line_and_an_archive_one_for_each_of_its_files(http: TestClient) -> None:
    answer = send(
        http,
        ("guide.md", GUIDE),
        (
            "all.zip",
            zip_of({"a/one.rst": b"Title\n=====\n\nWords.\n", "../two.txt": b"Two.", "three.bin": b"\x00\x01\x02\x03"}),
        ),
        ("more.tar.gz", gzip.compress(tar_of({"notes.txt": b"Notes of a day."}))),
        ("paper.pdf", b"no PDF at all"),
    )
    assert answer.status_code == 202, answer.text
    told = {line["name"]: line for line in answer.json()["files"]}
    assert {name: line["status"] for name, line in told.items()} == {
        "guide.md": "accepted",
        "all.zip/a/one.rst": "accepted",
        "all.zip/two.txt": "accepted",
        "all.zip/three.bin": "refused",
        "more.tar.gz/notes.txt": "accepted",
        "paper.pdf": "refused",
    }
    assert told["paper.pdf"]["reason"] == "its name says application/pdf, its bytes say something else"
    assert len(told["guide.md"]["sha256"]) == 64
    assert told["guide.md"]["document_id"].startswith("sub_")
    assert answer.headers["location"] == f"/v1/uploads/{answer.json()['id']}"
    again = http.get(answer.headers["location"])
    assert again.json()["files"] == answer.json()["files"]
    assert http.get(again.json()["links"]["run"]).json()["kind"] == "documents"


def test_what_comes_lies_in_files_without_a_name_in_the_folder_that_is_given(tmp_path: Path) -> None:
    """In a process of its own, as the setting is the whole process's."""
    program = f"""
import io, os, pathlib
from sluice.api.uploads import SPOOLED_BYTES, spool_to
from starlette.formparsers import MultiPartParser
from tempfile import SpooledTemporaryFile
folder = pathlib.Path({str(tmp_path)!r}) / "uploads"
spool_to(folder)
file = SpooledTemporaryFile(max_size=MultiPartParser.spool_max_size)
file.write(bytes(SPOOLED_BYTES + 1))
assert str(folder) in os.readlink(f"/proc/self/fd/{{file.fileno()}}")
assert os.listdir(folder) == []
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_form_that_is_wrong_names_what_is(http: TestClient, serve: Callable[..., TestClient]) -> None:
    assert http.post("/v1/uploads", content=b"x", headers={"content-type": "text/plain"}).status_code == 415
    wrong = send(http, ("a.md", GUIDE), corpus="No Name")
    assert (wrong.status_code, wrong.json()["field"]) == (422, "corpus")
    assert send(http, ("a.md", GUIDE), colour="red").json()["errors"][0]["pointer"] == "/colour"
    assert send(http, ("a.md", GUIDE), metadata="[1]").json()["field"] == "metadata"
    assert send(http, ("a.md", GUIDE), document_id="sub_" + "0" * 32).json()["field"] == "document_id"
    many = http.post("/v1/uploads", files=[("file", (f"{n}.md", b"x")) for n in range(1_001)])
    assert (many.status_code, many.json()["code"]) == (422, "invalid_input")
    assert "1000" in many.json()["detail"]
    cut = http.post(
        "/v1/uploads",
        content=b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\nHalf of',
        headers={"content-type": "multipart/form-data; boundary=b"},
    )
    assert (cut.status_code, cut.json()["field"]) == (422, "file")
    small = serve(max_upload_bytes=10_000)
    large = send(small, ("a.md", b"x" * 20_000))
    assert (large.status_code, large.json()["code"]) == (413, "too_large")
    assert http.get("/v1/uploads/run_none").status_code == 404


def test_a_repeated_request_is_one_run(http: TestClient) -> None:
    key = {"Idempotency-Key": "once"}
    first, second = (
        http.post("/v1/uploads", files=[("file", ("guide.md", GUIDE))], headers=key).json()["id"] for _ in range(2)
    )
    assert first == second
    other = http.post("/v1/uploads", files=[("file", ("guide.md", b"other"))], headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


def test_metadata_and_an_id_of_ones_own(http: TestClient) -> None:
    answer = send(http, ("guide.md", GUIDE), document_id="guide", metadata=json.dumps({"team": "x"}), again="true")
    assert answer.json()["files"][0]["document_id"] == "guide"


def test_the_client_sends_files_and_asks_for_their_lines(http: TestClient) -> None:
    call = SluiceClient.upload.call({'a "b".md': GUIDE, "c/d.md": b"Words."}, metadata='{"team": "x"}')
    answer = http.post(call.path, content=call.body, headers={"content-type": call.content_type})
    assert [line["name"] for line in answer.json()["files"]] == ["a %22b%22.md", "c/d.md"]
    assert SluiceClient.upload_status.call(answer.json()["id"]).path == answer.headers["location"]
