"""A journal that several machines append to is one: each has all of it, in one order, and no entry twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.contracts.errors import Corrupted, StoreDown
from sluice.disk.object_store import ObjectStore, open_store
from sluice.index.settings import ObjectStoreSettings
from sluice.memory.journal import Journal
from sluice.memory.journal import entry as entries
from sluice.memory.journal.file import prove, state_sha256
from sluice.workers.wiring.memories import StoredJournals
from tests.support.memory.entries import added, iteration, learning, said

FEATURE = "auth"
REPEATED = entries.LearningRepeated(learning_id=learning().id, text="again", reason="seen again", source="Agent")


class Store(ObjectStore):
    """A store that counts its requests, and may be away or lose replies."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner._backend)  # noqa: SLF001
        self.requests, self.is_away, self.loses_replies = 0, False, False

    def create(self, path: str, content: bytes) -> bool:
        self._asked()
        made = super().create(path, content)
        return made and not self.loses_replies

    def read(self, path: str) -> bytes:
        self._asked()
        return super().read(path)

    def _asked(self) -> None:
        self.requests += 1
        if self.is_away:
            raise StoreDown("the object store does not answer")


@pytest.fixture
def store() -> Store:
    return Store(open_store("memory:///", ObjectStoreSettings()))


def machine(store: ObjectStore, folder: Path) -> Journal:
    return Journal(folder, FEATURE, shared=StoredJournals(store, "project"))


def test_what_one_machine_appends_another_reads(store: Store, tmp_path: Path) -> None:
    here, there = machine(store, tmp_path / "here"), machine(store, tmp_path / "there")
    assert there.read().iterations == {}
    here.append([iteration(1)])
    assert there.append([iteration(1), iteration(2)]) == [False, True]
    assert here.append([added(), said(REPEATED)]) == [True, True]  # in one append
    assert state_sha256(here.read()) == state_sha256(there.read())
    assert len(there.read().iterations) == 2
    assert here.path.read_bytes() == there.path.read_bytes()
    assert StoredJournals(store, "project").features() == [FEATURE]
    assert prove(there).differences == ()


def test_a_reading_with_nothing_new_is_one_request(store: Store, tmp_path: Path) -> None:
    here = machine(store, tmp_path)
    here.append([iteration(1)])
    store.requests = 0
    here.read()
    assert store.requests == 1


def test_machines_that_append_at_once_lose_nothing_and_agree(store: Store, tmp_path: Path) -> None:
    machines = [machine(store, tmp_path / str(number)) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: [machines[n].append([iteration(10 * n + k)]) for k in range(1, 9)], range(4)))
    states = {state_sha256(one.read()) for one in machines}
    assert len(states) == 1
    assert len(machines[0].read().iterations) == 32
    assert len({one.path.read_bytes() for one in machines}) == 1


def test_a_new_machine_reads_all_of_it_in_parts(store: Store, tmp_path: Path) -> None:
    here = machine(store, tmp_path / "here")
    for number in range(1, 101):
        here.append([iteration(number)])
    there = machine(store, tmp_path / "there")
    assert len(there.read().iterations) == 100
    assert there.path.read_bytes() == here.path.read_bytes()


def test_a_put_whose_reply_was_lost_counts_as_new(store: Store, tmp_path: Path) -> None:
    store.loses_replies = True
    assert machine(store, tmp_path).append([iteration(1)]) == [True]


def test_while_the_store_is_away_nothing_is_written_here(store: Store, tmp_path: Path) -> None:
    here = machine(store, tmp_path)
    here.append([iteration(1)])
    before, store.is_away = here.path.read_bytes(), True
    with pytest.raises(StoreDown):
        here.append([iteration(2)])
    with pytest.raises(StoreDown):
        here.read()
    assert here.path.read_bytes() == before
    store.is_away = False
    assert here.append([iteration(2)]) == [True]


def test_a_machine_that_dies_behind_the_put_finds_it_again(store: Store, tmp_path: Path) -> None:
    here = machine(store, tmp_path)
    here.append([iteration(1)])
    StoredJournals(store, "project").append(FEATURE, here.path.stat().st_size, _line(2))  # it died here
    with here.path.open("ab") as file:
        file.write(_line(2)[:40])  # or here
    assert here.append([iteration(2)]) == [False]
    assert here.append([iteration(3)]) == [True]
    assert machine(store, tmp_path / "other").read().iterations.keys() == here.read().iterations.keys()


def _line(number: int) -> bytes:
    return iteration(number).to_json_line().encode() + b"\n"


def test_a_gap_is_noticed(store: Store, tmp_path: Path) -> None:
    here = machine(store, tmp_path / "here")
    for number in (1, 2, 3):
        here.append([iteration(number)])
    names = sorted(store.sizes("memory"))
    store.delete(names[1:2])
    with pytest.raises(Corrupted, match="lacks what comes before"):
        machine(store, tmp_path / "there").read()
