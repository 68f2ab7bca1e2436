"""The journal: durable, ordered, and honest about damage."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import zstandard

from sluice.contracts.errors import Corrupted, Unavailable
from sluice.index.journal.files import read_journal, read_pinned_model
from sluice.index.journal.journal import Journal, JournalTail
from sluice.index.journal.records import Kind, Removal, Upsert, decode_record, encode_record, make_facts

LARGE = 1_000_000


def _entry(text: str) -> tuple[Kind, bytes]:
    return Kind.REMOVAL, text.encode()


def _texts(folder: Path, after: int = 0) -> list[str]:
    return [frame.payload.decode() for frame in read_journal(folder, after)]


def test_offsets_count_records_from_one_and_go_on_after_reopening(tmp_path: Path) -> None:
    journal = Journal(tmp_path, LARGE)
    assert journal.last_offset == 0
    assert journal.append([_entry("a"), _entry("b")]) == 2
    journal.close()
    journal = Journal(tmp_path, LARGE)
    assert journal.append([_entry("c")]) == 3
    journal.close()
    assert [(frame.offset, frame.payload) for frame in read_journal(tmp_path, 1)] == [(2, b"b"), (3, b"c")]


def test_segments_roll_by_size_and_reading_from_an_offset_skips_whole_segments(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=200)
    for number in range(20):
        journal.append([_entry(f"record {number:03d}" * 5)])
    journal.close()
    assert len(list(tmp_path.glob("*.log"))) > 3
    assert len(_texts(tmp_path)) == 20
    assert len(_texts(tmp_path, 17)) == 3


@pytest.mark.parametrize("cut_bytes", [1, 5, 30, 40])
def test_a_torn_tail_is_ignored_by_readers_and_cut_by_the_next_writer(tmp_path: Path, cut_bytes: int) -> None:
    journal = Journal(tmp_path, LARGE)
    journal.append([_entry("kept" * 20), _entry("torn" * 20)])
    journal.close()
    (path,) = tmp_path.glob("*.log")
    path.write_bytes(path.read_bytes()[:-cut_bytes])
    assert _texts(tmp_path) == ["kept" * 20]
    journal = Journal(tmp_path, LARGE)
    assert journal.append([_entry("next")]) == 2
    journal.close()
    assert _texts(tmp_path) == ["kept" * 20, "next"]


def test_garbage_after_the_last_frame_is_cut(tmp_path: Path) -> None:
    journal = Journal(tmp_path, LARGE)
    journal.append([_entry("kept")])
    journal.close()
    (path,) = tmp_path.glob("*.log")
    with path.open("ab") as file:
        file.write(b"SLJ1" + b"\xff" * 50)
    Journal(tmp_path, LARGE).close()
    assert _texts(tmp_path) == ["kept"]


def test_damage_before_an_intact_frame_is_an_error_and_never_a_torn_tail(tmp_path: Path) -> None:
    journal = Journal(tmp_path, LARGE)
    journal.append([_entry("first" * 10), _entry("second" * 10)])
    journal.close()
    (path,) = tmp_path.glob("*.log")
    content = bytearray(path.read_bytes())
    content[45] ^= 1
    path.write_bytes(content)
    with pytest.raises(Corrupted):
        _texts(tmp_path)
    with pytest.raises(Corrupted):
        Journal(tmp_path, LARGE)


def test_a_missing_segment_is_an_error(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=100)
    for number in range(9):
        journal.append([_entry(f"{number}" * 60)])
    journal.close()
    sorted(tmp_path.glob("*.log"))[1].unlink()
    with pytest.raises(Corrupted):
        _texts(tmp_path)


@pytest.mark.parametrize(
    ("fault", "told"), [(OSError(28, "No space left on device"), Unavailable), (SystemExit(1), SystemExit)]
)
def test_an_append_that_failed_or_was_interrupted_keeps_nothing_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, told: type[BaseException]
) -> None:
    journal = Journal(tmp_path, LARGE)
    journal.append([_entry("kept")])
    with monkeypatch.context() as patch:

        def refuse(descriptor: int) -> None:
            raise fault

        patch.setattr("sluice.index.journal.journal.os.fsync", refuse)
        with pytest.raises(told):
            journal.append([_entry("lost")])
    assert journal.append([_entry("next")]) == 2
    journal.close()
    assert _texts(tmp_path) == ["kept", "next"]


def test_what_is_done_while_the_disk_flushes_may_fail_and_then_nothing_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path, LARGE)
    done: list[str] = []
    assert journal.append([_entry("kept")], lambda: done.append("beside")) == 1

    def fail() -> None:
        raise ValueError("the working set")

    with pytest.raises(ValueError, match="the working set"):
        journal.append([_entry("lost")], fail)
    assert (done, journal.last_offset) == (["beside"], 1)
    assert journal.append([_entry("next")]) == 2
    journal.close()
    assert _texts(tmp_path) == ["kept", "next"]


def test_records_survive_the_round_trip_and_the_first_vector_pins_the_model(tmp_path: Path, make) -> None:
    document = make.document("d1", "some text", "more text", url="https://example.org/", metadata={"k": True})
    upsert = Upsert.of(document, make.vectors([document]), make.model)
    journal = Journal(tmp_path, LARGE)
    empty = make.document("none")
    journal.append([encode_record(record) for record in (Removal("d0"), Upsert.of(empty, make.vectors([empty]), "x"))])
    assert read_pinned_model(tmp_path) is None
    journal.append([encode_record(upsert)])
    journal.close()
    frames = list(read_journal(tmp_path))
    decoded = decode_record(frames[2].kind, frames[2].payload)
    assert decode_record(frames[0].kind, frames[0].payload) == Removal("d0")
    assert isinstance(decoded, Upsert)
    assert decoded.document == document
    assert (decoded.vectors == upsert.vectors).all()
    assert read_pinned_model(tmp_path) == (make.model, make.dimension)


def test_the_records_of_a_version_are_its_facts_and_chunks_as_json_before_and_after_the_journal(make) -> None:
    document = make.document("d1", "“quotes”, \\ and \x00", "more", title="Ü", metadata={"k": 1.5}, language="de")
    upsert = Upsert.of(document, make.vectors([document]), make.model)
    assert upsert.records.facts == make_facts(document).model_dump_json().encode()
    assert upsert.records.chunks == tuple(chunk.model_dump_json().encode() for chunk in document.chunks)
    decoded = decode_record(*encode_record(upsert))
    assert isinstance(decoded, Upsert)
    assert (decoded.records, decoded.document) == (upsert.records, document)


def test_an_upsert_of_an_older_journal_decodes_to_the_same_and_pins_the_model(tmp_path: Path, make) -> None:
    """Kind 1: the document as one JSON instead of its records."""
    document = make.document("d1", "some text", "more text", url="https://example.org/", metadata={"k": True})
    upsert = Upsert.of(document, make.vectors([document]), make.model)
    name, body = make.model.encode(), zstandard.compress(document.model_dump_json().encode())
    lengths = struct.pack("<IIII", len(name), len(body), *upsert.vectors.shape)
    journal = Journal(tmp_path, LARGE)
    journal.append([(Kind.OLD_UPSERT, lengths + name + body + upsert.vectors.astype("<f4").tobytes())])
    journal.close()
    (frame,) = read_journal(tmp_path)
    assert frame.kind == 1
    decoded = decode_record(frame.kind, frame.payload)
    assert isinstance(decoded, Upsert)
    assert (decoded.document, decoded.records, decoded.fingerprint) == (document, upsert.records, make.model)
    assert (decoded.vectors == upsert.vectors).all()
    assert read_pinned_model(tmp_path) == (make.model, make.dimension)


def test_bytes_that_are_no_record_are_refused(make) -> None:
    with pytest.raises(Corrupted):
        decode_record(Kind.UPSERT, b"\x01\x00")
    with pytest.raises(Corrupted):
        decode_record(9, b"")
    for body in (b"", b"\xff" * 4, struct.pack("<II", 1, 9) + b"{}", struct.pack("<II", 1, 1) + b"{}"):
        packed = zstandard.compress(body)
        with pytest.raises(Corrupted):
            decode_record(Kind.UPSERT, struct.pack("<IIII", 0, len(packed), 0, 0) + packed)


@pytest.mark.parametrize("segment_bytes", [200, LARGE])
def test_who_follows_from_any_offset_reads_every_later_record_once(tmp_path: Path, segment_bytes: int) -> None:
    journal = Journal(tmp_path, segment_bytes)
    for number in range(1, 13):
        journal.append([_entry(f"record {number:02d}" * 5)])
    for after in range(12):
        tail = JournalTail(tmp_path, after)
        halfway = [frame.offset for frame in tail.read((after + 12) // 2)]
        assert halfway + [frame.offset for frame in tail.read(12)] == list(range(after + 1, 13))
        tail.close()
    tail = JournalTail(tmp_path, 12)
    assert list(tail.read(tail.durable_offset())) == []
    journal.append([_entry("more")])
    assert [frame.payload for frame in tail.read(tail.durable_offset())] == [b"more"]
    tail.close()
    journal.close()


def test_a_segment_that_cannot_be_begun_leaves_the_old_one_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path, segment_bytes=1)
    journal.append([(Kind.REMOVAL, b"a")])

    def refuse(path: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("sluice.index.journal.files.fsync_path", refuse)
        with pytest.raises(Unavailable):
            journal.append([(Kind.REMOVAL, b"b")])
    assert journal.append([(Kind.REMOVAL, b"b")]) == 2
    journal.close()
    assert [frame.payload for frame in read_journal(tmp_path)] == [b"a", b"b"]
