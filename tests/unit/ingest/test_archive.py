"""Archives are unpacked within limits, and one file costs no other."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.ingest import archive
from sluice.ingest.archive import Packed, is_archive, plain_name, unpacked, zip_kind
from tests.support.office_files import docx_of, epub_of, odt_of, pptx_of, xlsx_of, zip_of

MOST_FILE_BYTES = 5_000_000


def files_of(body: bytes, name: str = "a.zip") -> dict[str, Packed]:
    assert is_archive(body[:512])
    return {one.name: one for one in unpacked(io.BytesIO(body), name, len(body), MOST_FILE_BYTES)}


def reasons_of(body: bytes) -> dict[str, str | None]:
    return {name: one.reason for name, one in files_of(body).items()}


def tar_of(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for entry, body in entries:
            entry.size = len(body)
            tar.addfile(entry, io.BytesIO(body))
    return packed.getvalue()


def test_names_lead_nowhere_else() -> None:
    assert plain_name("../../etc/passwd") == "etc/passwd"
    assert plain_name("/root/.\\..\\C:\\a\x00b.md") == "root/ab.md"
    assert plain_name("..") == ""


@pytest.mark.parametrize("packing", [lambda body: body, gzip.compress])
def test_a_tar_and_one_in_gzip_give_their_files_without_links_and_devices(packing: object) -> None:
    link, hard, device = (tarfile.TarInfo(name) for name in ("link", "hard", "device"))
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard.type, hard.linkname = tarfile.LNKTYPE, "a/one.md"
    device.type = tarfile.CHRTYPE
    body = tar_of([(tarfile.TarInfo("a/one.md"), b"One."), (link, b""), (hard, b""), (device, b"")])
    found = files_of(packing(body))  # type: ignore[operator]
    assert found["a/one.md"].body == b"One."
    assert [found[name].reason for name in ("link", "hard", "device")] == ["a link", "a link", "not a regular file"]


def test_a_gzip_is_one_file_named_without_its_ending() -> None:
    assert files_of(gzip.compress(b"Words."), "docs/a.md.gz")["a.md"].body == b"Words."


def test_links_encrypted_files_hidden_ones_doubles_and_archives_are_left_out_by_name() -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("a.md", "A.")
        made.writestr("x/../a.md", "Another.")
        made.writestr("./a.md", "A third.")
        made.writestr(link, "/etc/passwd")
        made.writestr("in.zip", zip_of({"a.md": "A."}))
        made.writestr("in.gz", gzip.compress(b"A."))
        made.writestr("in.docx", docx_of(""))
        made.writestr("__MACOSX/._a.md", "x")
        made.writestr("secret.md", "Secret.")
    body = packed.getvalue()
    at = body.rindex(b"secret.md") - 46
    body = body[: at + 8] + struct.pack("<H", 1) + body[at + 10 :]
    assert reasons_of(body) == {
        "a.md": "a second file of this name",
        "x/a.md": None,
        "link": "a link",
        "in.zip": "an archive in an archive",
        "in.gz": "an archive in an archive",
        "in.docx": None,
        "__MACOSX/._a.md": "hidden",
        "secret.md": "encrypted",
    }


def test_the_ratio_counts_while_reading_whatever_the_headers_say() -> None:
    bomb = zip_of({"good.md": "Good.", "bomb.txt": bytes(4_000_000), "after.md": "After."})
    for body in (bomb, bomb.replace(struct.pack("<I", 4_000_000), struct.pack("<I", 10))):
        found = files_of(body)
        assert (found["good.md"].body, found["after.md"].body) == (b"Good.", b"After.")
        assert found["bomb.txt"].reason
    for bytes_ in (bytes(60_000_000), tar_of([(tarfile.TarInfo("a"), bytes(60_000_000))])):
        assert "100 times" in (files_of(gzip.compress(bytes_))[""].reason or "")
    assert "larger than" in (files_of(gzip.compress(os.urandom(MOST_FILE_BYTES + 1)), "a.gz")["a"].reason or "")


def test_the_whole_archive_has_a_limit_and_what_came_before_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_UNPACKED_BYTES", 100)
    found = files_of(zip_of({"a.md": "x" * 60, "b.md": "y" * 60, "c.md": "z"}))
    assert [name for name, one in found.items() if one.reason is None] == ["a.md"]
    assert "more than 100 bytes" in (found[""].reason or "")


def test_too_many_files_and_a_directory_of_millions_are_refused() -> None:
    found = files_of(zip_of({f"{n}.md": "x" for n in range(archive.MOST_ENTRIES + 5)}, zipfile.ZIP_STORED))
    assert sum(one.reason is None for one in found.values()) == archive.MOST_ENTRIES
    assert "1,000 files" in (found[""].reason or "")
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 65_535, 65_535, 2_000_000_000, 0, 0)
    with pytest.raises(InvalidInput, match="1,000 files"):
        zip_kind(io.BytesIO(b"PK\x03\x04" + bytes(100) + end))


def test_a_tar_header_that_claims_gigabytes_takes_none() -> None:
    entry = tarfile.TarInfo("././@PaxHeader")
    entry.type, entry.size = tarfile.XHDTYPE, 2_000_000_000
    assert "header" in (reasons_of(entry.tobuf() + bytes(10_240))[""] or "")


@pytest.mark.parametrize(
    "damaged",
    [zip_of({"a.md": "A."})[:60], gzip.compress(b"Words." * 99)[:30], b"PK\x03\x04" + b"x" * 600],
    ids=["zip", "gzip", "no archive"],
)
def test_a_damaged_archive_is_its_own_fault(damaged: bytes) -> None:
    assert "damaged" in (reasons_of(damaged)[""] or "")


def test_a_damaged_file_costs_no_other() -> None:
    body = zip_of({"a.md": "A.", "b.md": "B" * 500})
    packed = zlib.compressobj(wbits=-15)
    part = packed.compress(b"B" * 500) + packed.flush()
    found = files_of(body.replace(part, bytes(len(part))))
    assert found["a.md"].body == b"A."
    assert "damaged" in (found["b.md"].reason or "")


def test_a_zip_says_by_its_parts_what_it_is() -> None:
    made = [docx_of(""), pptx_of([]), xlsx_of({}), odt_of(""), epub_of({}), zip_of({"a": "b"})]
    kinds = [zip_kind(io.BytesIO(body)) for body in made]
    assert [kind.rpartition(".")[2] for kind in kinds] == [
        "document",
        "presentation",
        "sheet",
        "text",
        "application/epub+zip",
        "application/zip",
    ]
