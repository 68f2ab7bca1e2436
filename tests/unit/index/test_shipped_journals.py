"""Journals in the object store: what is shipped is the journal, and counts only if no later owner has begun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.contracts.errors import Corrupted, Fenced, StoreDown
from sluice.disk.object_store import ObjectStore, open_store
from sluice.index.folder import CorpusLayout
from sluice.index.journal.files import read_journal
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.remote import journals
from sluice.index.remote.journals import ASIDE, Shipping, holds, pull_parts, put_in_place, read_head
from sluice.index.settings import ObjectStoreSettings
from tests.support.valves import valve

SMALL_SEGMENTS = WritePolicy(journal_segment_bytes=2_000)


@pytest.fixture
def store() -> ObjectStore:
    return open_store("memory://", ObjectStoreSettings())


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[IndexWriter]:
    with IndexWriter(tmp_path / "a", "docs", SMALL_SEGMENTS) as opened:
        yield opened


def shipping(store: ObjectStore, folder: Path, epoch: int = 1, machine: str = "a") -> Shipping:
    return Shipping(store, CorpusLayout(folder, "docs"), epoch, machine, lambda: None)


def frames(folder: Path) -> list[tuple[int, bytes]]:
    return [(frame.offset, frame.payload) for frame in read_journal(CorpusLayout(folder, "docs").journal)]


def arrives(store: ObjectStore, folder: Path) -> list[tuple[int, bytes]]:
    head = read_head(store, "docs")[1]
    assert head is not None
    folder.joinpath("docs").mkdir(parents=True, exist_ok=True)
    put_in_place(store, CorpusLayout(folder, "docs"), head)
    return frames(folder)


def parts_in(store: ObjectStore) -> set[str]:
    return {path.rsplit("/", 1)[-1] for path in store.sizes("docs/journal/parts")}


def named(store: ObjectStore) -> set[str]:
    head = read_head(store, "docs")[1]
    return {part.name for part in head.parts} if head else set()


def test_what_was_shipped_is_the_journal_and_its_parts_stay_few(
    writer: IndexWriter, store: ObjectStore, tmp_path: Path
) -> None:
    ship = shipping(store, tmp_path / "a")
    assert ship.ship() == 0
    for number in range(60):
        writer.append(*valve(number))
        assert ship.unshipped_bytes() > 0
        assert ship.ship() > 0
        assert ship.unshipped_bytes() == 0
        assert ship.ship() == 0
    assert arrives(store, tmp_path / "b") == frames(tmp_path / "a")
    files = len(list((tmp_path / "a" / "docs" / "journal").glob("*.log")))
    assert len(parts_in(store)) <= files + 17
    assert parts_in(store) == named(store)


def test_what_a_compaction_rewrote_is_replaced(writer: IndexWriter, store: ObjectStore, tmp_path: Path) -> None:
    ship = shipping(store, tmp_path / "a")
    for number in range(20):
        writer.append(*valve(number))
    ship.ship()
    writer.remove([f"d{number}" for number in range(10)])
    ship.ship()
    writer.erase()
    writer.append(*valve(30))
    ship.ship()
    assert parts_in(store) == named(store)
    assert arrives(store, tmp_path / "b") == frames(tmp_path / "a")
    writer.remove(["d12"])
    writer.erase()
    ship.ship()
    assert arrives(store, tmp_path / "b") == frames(tmp_path / "a")
    with IndexWriter(tmp_path / "b", "docs") as other:
        assert {facts.document_id for facts in other.select(lambda _: True)} == {
            facts.document_id for facts in writer.select(lambda _: True)
        }


def test_an_owner_that_another_followed_ships_nothing_that_counts(
    writer: IndexWriter, store: ObjectStore, tmp_path: Path
) -> None:
    old = shipping(store, tmp_path / "a")
    writer.append(*valve(1))
    old.ship()
    counted = arrives(store, tmp_path / "b")
    new = shipping(store, tmp_path / "b", 2, "b")
    new.ship()
    writer.append(*valve(2))
    with pytest.raises(Fenced):
        old.ship()
    assert arrives(store, tmp_path / "c") == counted
    layout, head = CorpusLayout(tmp_path / "a", "docs"), read_head(store, "docs")[1]
    assert head is not None
    assert head.machine == "b"
    assert holds(layout, head)  # it goes on from it, yet has another owner's
    writer.close()
    assert arrives(store, tmp_path / "a") == counted
    assert (layout.folder / ASIDE).is_dir()


def test_killed_before_the_head_a_part_counts_nothing_and_is_removed_later(
    writer: IndexWriter, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship = shipping(store, tmp_path / "a")
    writer.append(*valve(1))

    def away(*_: object) -> bool:
        raise StoreDown("away", 1.0)

    with monkeypatch.context() as patched:
        patched.setattr(store, "create", away)
        with pytest.raises(StoreDown):
            ship.ship()
    assert parts_in(store)
    assert not named(store)
    again = shipping(store, tmp_path / "a", 2)
    again.ship()
    again.drop_unnamed()
    assert parts_in(store) == named(store)
    assert arrives(store, tmp_path / "b") == frames(tmp_path / "a")


def test_a_part_that_was_changed_is_refused(writer: IndexWriter, store: ObjectStore, tmp_path: Path) -> None:
    writer.append(*valve(1))
    shipping(store, tmp_path / "a").ship()
    [name] = parts_in(store)
    content = store.read(f"docs/journal/parts/{name}")
    store.write(f"docs/journal/parts/{name}", content[:-1] + b"x")
    head = read_head(store, "docs")[1]
    assert head is not None
    with pytest.raises(Corrupted, match="damaged"):
        pull_parts(store, CorpusLayout(tmp_path / "b", "docs"), head)
    assert not any((tmp_path / "b" / "docs" / journals.PULLED).iterdir())


def test_another_journal_in_its_place_is_shipped_whole(store: ObjectStore, tmp_path: Path) -> None:
    with IndexWriter(tmp_path / "a", "docs") as first:
        first.append(*valve(1))
        first.append(*valve(2))
        shipping(store, tmp_path / "a").ship()
    with IndexWriter(tmp_path / "restored", "docs") as second:
        second.append(*valve(3))
        shipping(store, tmp_path / "restored", 2).ship()
    assert arrives(store, tmp_path / "b") == frames(tmp_path / "restored")
    assert parts_in(store) == named(store)
