"""Machines that share a ledger and an object store: one owns the index, another takes over without a loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.errors import Conflict, Corrupted, Fenced, StoreDown
from sluice.contracts.operations.forget import ForgetRequest
from sluice.contracts.retrieval import Query, Strategy
from sluice.disk.object_store import ObjectStore, open_store
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import list_generation_names, read_current_name
from sluice.index.remote.journals import ASIDE, Shipping, read_head
from sluice.index.settings import ObjectStoreSettings
from sluice.ledger.schema.tables import leases
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.service.operate.shared_form import pull_all, push_all
from sluice.workers.wiring import index_owner
from tests.support.engines import CREDENTIALS, engine_settings
from tests.support.in_process import Instance
from tests.support.valkey import Valkey

Machine = Callable[[str], Instance]
TEXTS = ("Leases are renewed by the heartbeat.", "A valve opens at four bars.", "Bread needs flour and water.")


@pytest.fixture
def shared(valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the machines share: SQLite and a folder, or the engines that `tests.support.engines` reads of variables."""
    engines = engine_settings(tmp_path)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    store = {"url": engines.get("OBJECT_STORE__URL") or (tmp_path / "store").as_uri()}
    if endpoint := engines.get("OBJECT_STORE__ENDPOINT"):
        store["endpoint"] = endpoint
    ledger_url = engines.get("LEDGER_URL") or f"sqlite:///{tmp_path}/ledger.sqlite"
    return {"ledger_url": ledger_url, "broker_url": valkey.settings.broker_location, "object_store": store}


@pytest.fixture
def machine(valkey: Valkey, tmp_path: Path, shared: dict[str, Any]) -> Iterator[Machine]:
    with ExitStack() as opened:

        def make(name: str) -> Instance:
            (tmp_path / name).mkdir(exist_ok=True)
            made = Instance(valkey, {"data_dir": tmp_path / name, **shared})
            made.context.index_owner.waits_for_turn = True
            opened.callback(made.close)
            return made

        yield make


@pytest.fixture
def store(shared: dict[str, Any]) -> ObjectStore:
    access = ObjectStoreSettings(**shared["object_store"])
    return open_store(f"{access.url}/index", access)


def burns(instance: Instance) -> None:
    """The machine goes without a word: its lease runs out, and its threads do nothing more."""
    owner = instance.context.index_owner
    owner.stopping.set()
    with instance.context.ledger.database.writing() as connection:
        connection.update(leases, {"name": "index"}, {"until": 0.0})


def ships_no_more(instance: Instance) -> None:
    """Its threads end; by its own clock it owns the index for long."""
    instance.context.index_owner.stopping.set()
    time.sleep(index_owner.LOOK_SECONDS)
    instance.context.index_owner.until = index_owner.clock() + 600
    with instance.context.ledger.database.writing() as connection:
        connection.update(leases, {"name": "index"}, {"until": time.time() + 600})


def ids(instance: Instance, corpus: str = "default") -> list[str]:
    reader = instance.context.readers.reader(corpus)
    reader.reload()
    return sorted(facts.document_id for facts in reader.all_facts())


def answers(instance: Instance, corpus: str = "default") -> list[tuple[str, ...]]:
    """What questions find: chunks by words, in order."""
    reader = instance.context.readers.reader(corpus)
    asked = ("leases heartbeat", "valve bars", "bread flour")
    found = (reader.search(Query(query=one, corpus=corpus, strategy=Strategy.BM25)) for one in asked)
    return [tuple(chunk.chunk_id for chunk in one.chunks) for one in found]


def indexes(instance: Instance, *texts: str) -> str:
    run_id = instance.adds(*texts)
    instance.works("chunk", "embed", "index")
    return run_id


def test_another_machine_serves_what_is_published_and_takes_over(machine: Machine) -> None:
    first, second = machine("a"), machine("b")
    assert first.context.index_owner.take()
    indexes(first, *TEXTS)
    assert not second.context.index_owner.take()
    second.context.index_puller.look()
    assert ids(second) == ids(first) == ["doc-0", "doc-1", "doc-2"]
    assert answers(second) == answers(first)
    assert second.context.readers.exists("default")
    assert not second.context.truth.problems()
    burns(first)
    began = time.monotonic()
    assert second.context.index_owner.take()
    assert time.monotonic() - began < 5
    indexes(second, "A lamp needs a bulb.")
    assert ids(second) == ["doc-0", "doc-1", "doc-2"]  # doc-0 has another text
    first.context.index_owner.lose("burnt")
    first.context.writers.close_wanted(every=True)
    first.context.index_puller.look()
    assert answers(first) == answers(second)


def test_what_was_not_shipped_is_handled_again(machine: Machine, store: ObjectStore) -> None:
    first, second = machine("a"), machine("b")
    assert first.context.index_owner.take()
    ships_no_more(first)
    indexes(first, TEXTS[0])
    shipped = read_head(store, "default")[1]
    assert shipped is not None
    run_id = first.adds(*TEXTS)
    first.works("chunk", "embed")
    first.works_once("index")  # appended and settled, neither published nor shipped
    reached = first.context.ledger.written_offsets()["default"]
    assert reached > shipped.last_offset
    burns(first)
    assert second.context.index_owner.take()
    assert ids(second) == ["doc-0", "doc-1", "doc-2"]
    second.works("index")
    assert "index" not in second.context.ledger.open_by_queue(run_id)
    with second.context.writers.writing("default") as writer:
        assert writer.journal_offset >= reached


def test_a_zombie_s_appends_settlings_and_ships_are_refused(machine: Machine, store: ObjectStore) -> None:
    first, second = machine("a"), machine("b")
    assert first.context.index_owner.take()
    indexes(first, TEXTS[0])
    owner = first.context.index_owner
    fence = owner.fence
    assert fence is not None
    old = Shipping(
        store, CorpusLayout(first.context.settings.index_root, "default"), fence.epoch, fence.holder, lambda: None
    )
    burns(first)
    assert second.context.index_owner.take()
    with first.context.writers.writing("default") as writer:
        writer.remove(["doc-0"])  # by its own clock it still may
    with pytest.raises(Fenced):
        old.ship()
    owner.until = 0.0
    with pytest.raises(Fenced), first.context.writers.writing("default") as writer:
        writer.remove(["doc-0"])
    owner.until = index_owner.clock() + 60
    first.adds(TEXTS[1])
    first.works("chunk", "embed")
    first.works_once("index")  # its settling is refused by the ledger
    assert first.context.ledger.backlogs().get("index") is None
    assert ids(second) == ["doc-0"]
    assert answers(first) != answers(second)
    owner.lose("found out")
    first.context.writers.close_wanted(every=True)
    first.context.index_puller.look()
    assert answers(first) == answers(second)
    assert (CorpusLayout(first.context.settings.index_root, "default").folder / ASIDE).is_dir()


class Dies(Exception):
    """The machine goes at this point."""


@pytest.mark.parametrize(
    "point",
    [
        "sluice.index.journal.journal.Journal.append",
        "sluice.workers.index_handlers.DocumentIndexed",
        "sluice.index.remote.snapshots._upload",
        "sluice.index.remote.journals.Shipping._put",
        "sluice.index.remote.journals.Shipping._put_head",
        "sluice.workers.wiring.index_owner.prune",
        "sluice.workers.index_handlers.SnapshotPublished",
    ],
)
def test_an_owner_that_dies_at_any_point_loses_nothing(
    machine: Machine, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the append, after it, in the middle of a push, before the pointer, after it; the event comes again."""
    first, second = machine("a"), machine("b")
    assert first.context.index_owner.take()
    indexes(first, TEXTS[0])
    ships_no_more(first)
    first.context.index_owner.keep = 1
    run_id = first.adds(*TEXTS)
    first.works("chunk", "embed")

    def dies(*_: object, **__: object) -> None:
        raise Dies(point)

    with monkeypatch.context() as patched:
        patched.setattr(point, dies)
        for _ in range(2):  # ChunksEmbedded, then DocumentIndexed
            first.works("index")
    burns(first)
    assert second.context.index_owner.take()
    for _ in range(20):
        second.context.ledger.wake_due_retries()
        second.works("index")
        if "index" not in second.context.ledger.open_by_queue(run_id):
            break
        time.sleep(0.2)
    assert ids(second) == ["doc-0", "doc-1", "doc-2"]
    assert all(len(found) == len(set(found)) == 1 for found in answers(second))
    assert second.context.ledger.run(run_id).dead_letters == 0
    first.context.index_owner.lose("burnt")
    first.context.writers.close_wanted(every=True)
    first.context.index_puller.look()
    assert answers(first) == answers(second)


def test_a_damaged_part_is_refused(machine: Machine, store: ObjectStore) -> None:
    first, second = machine("a"), machine("b")
    assert first.context.index_owner.take()
    indexes(first, *TEXTS)
    head = read_head(store, "default")[1]
    assert head is not None
    path = f"default/journal/parts/{head.parts[0].name}"
    store.write(path, store.read(path)[:-1] + b"x")
    burns(first)
    with pytest.raises(Corrupted, match="damaged"):
        second.context.index_owner.take()
    assert second.context.index_owner.fence is None


def test_while_the_store_is_away_publishing_waits_and_reading_goes_on(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine("a")
    assert first.context.index_owner.take()
    indexes(first, TEXTS[0])
    before = answers(first)

    def away(*_: object, **__: object) -> None:
        raise StoreDown("the object store does not answer", 1.0)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectStore, "write", away)
        patched.setattr(ObjectStore, "upload", away)
        run_id = first.adds(*TEXTS)
        first.works("chunk", "embed", "index")
        assert first.context.ledger.open_by_queue(run_id)
        assert answers(first) == before or answers(first)
    for _ in range(20):
        time.sleep(0.3)
        first.context.ledger.wake_due_retries()
        first.works("chunk", "embed", "index")
        if not first.context.ledger.open_by_queue(run_id):
            break
    assert ids(first) == ["doc-0", "doc-1", "doc-2"]


def test_a_data_directory_moves_to_the_shared_form_and_back(machine: Machine, shared: dict[str, Any]) -> None:
    """What one machine wrote goes up at the first start; another brings all of it home. Ids and answers stay."""
    store = shared.pop("object_store")
    alone = machine("a")
    indexes(alone, *TEXTS)
    before = ids(alone), answers(alone)
    blobs = {blob.sha256 for blob in alone.context.blobs.kept()}
    assert blobs
    alone.close()
    shared["object_store"] = store
    first = machine("a")
    first.context.index_owner.waits_for_turn = False
    assert push_all(first.context)["corpora"] >= 1
    assert (ids(first), answers(first)) == before
    first.close()
    second = machine("b")
    second.context.index_owner.waits_for_turn = False
    pull_all(second.context)
    assert (ids(second), answers(second)) == before
    second.close()
    del shared["object_store"]
    home = machine("b")
    assert (ids(home), answers(home)) == before
    assert blobs <= {blob.sha256 for blob in home.context.blobs.kept()}
    assert not home.context.truth.problems()
    indexes(home, "Another text.")
    with home.context.writers.writing("default") as writer:
        assert writer.rebuild().is_proven


def test_a_machine_that_has_nothing_does_not_take_the_place_of_one_that_was_not_moved_yet(
    machine: Machine, shared: dict[str, Any]
) -> None:
    store = shared.pop("object_store")
    alone = machine("a")
    indexes(alone, *TEXTS)
    before = answers(alone)
    alone.close()
    shared["object_store"] = store
    second = machine("b")
    assert second.context.index_owner.take()
    assert second.context.truth.problems()
    with pytest.raises(Corrupted, match="restore"), second.context.writers.writing("default"):
        pass
    first = machine("a")
    first.context.index_puller.look()
    second.context.index_owner.close()
    assert first.context.index_owner.take()
    assert answers(first) == before
    second.context.index_puller.look()
    assert answers(second) == before


def test_only_one_machine_writes(machine: Machine) -> None:
    first, second = machine("a"), machine("b")
    assert first.context.index_owner.take()
    second.context.index_owner.waits_for_turn = False  # as a command
    with pytest.raises(Conflict, match="owns the index"), second.context.writers.writing("default"):
        pass
    first.context.index_owner.close()  # a clean stop gives the lease up at once
    with second.context.writers.writing("default"):
        pass


def test_what_is_forgotten_leaves_the_store_and_every_machine(machine: Machine, store: ObjectStore) -> None:
    first, second = machine("a"), machine("b")
    assert first.context.index_owner.take()
    indexes(first, *TEXTS)
    second.context.index_puller.look(stands_by=True)
    ForgetDesk(first.context).forget(ForgetRequest(corpus="default", document_id="doc-1"), OWN_MACHINE)
    first.works("index")
    second.context.index_puller.look(stands_by=True)
    assert ids(second) == ["doc-0", "doc-2"]
    root = second.context.settings.data_dir
    assert list_generation_names(CorpusLayout(second.context.settings.index_root, "default")) == [
        read_current_name(CorpusLayout(first.context.settings.index_root, "default"))
    ]
    left = [path for path in (root / "index").rglob("*") if path.is_file() and b"four bars" in path.read_bytes()]
    assert not left
    assert not [path for path in store.sizes("default") if b"four bars" in store.read(path)]
