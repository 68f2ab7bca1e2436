"""Two machines are one instance: each stage reads what the other machine put, and nothing is lost while the store is away."""

from __future__ import annotations

import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import pytest

from sluice.contracts.errors import Conflict, InvalidSetting, NotFound, StoreDown
from sluice.contracts.operations.forget import ForgetRequest
from sluice.contracts.operations.transfer import UPLOADED
from sluice.index.settings import ObjectStoreSettings
from sluice.workers.backup.archive import Seal
from sluice.workers.backup.forgotten import read_whole
from sluice.workers.backup.restore import restore, verify
from sluice.workers.backup.take import take
from sluice.workers.backup.target import Target
from sluice.workers.service.callers import OWN_MACHINE, secret_of
from sluice.workers.service.corpora import CorpusDesk
from sluice.workers.service.forget import ForgetDesk
from tests.support.backup_story import fill, opened, state, wake_waiting
from tests.support.in_process import Instance
from tests.support.memory.instance import PROJECT, Remembering, claude_stream
from tests.support.moto_server import BUCKET, KEYS, moto_process
from tests.support.valkey import Valkey

OPEN = Seal()


class Place(NamedTuple):
    """An object store, and the process that serves it, if it is one."""

    settings: ObjectStoreSettings
    server: subprocess.Popen[bytes] | None


@pytest.fixture(scope="module")
def moto() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    with moto_process() as serving:
        yield serving


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "file":
        return Place(ObjectStoreSettings(url=f"file://{tmp_path}/store"), None)
    for name, value in KEYS:
        monkeypatch.setenv(name, value)
    url, server = request.getfixturevalue("moto")
    prefix = f"s3://{BUCKET}/{secrets.token_hex(4)}"
    return Place(ObjectStoreSettings(url=prefix, endpoint=url, timeout_seconds=2, max_retries=1), server)


class Machines(NamedTuple):
    """Both machines: one reads, chunks and embeds; one indexes and answers."""

    reads: Instance
    indexes: Instance

    def work(self) -> None:
        for _ in range(3):
            self.reads.works("chunk", "embed")
            self.indexes.works("query", "gate", "index", "graph")


@pytest.fixture
def machines(valkey: Valkey, place: Place, tmp_path: Path) -> Iterator[Machines]:
    with ExitStack() as opened_ones:

        def machine(name: str) -> Instance:
            sections = {
                "data_dir": tmp_path / name,
                "broker_url": valkey.settings.broker_location,
                "ledger_url": f"sqlite:///{tmp_path}/ledger.sqlite",
                "object_store": place.settings,
                "signing_key": "ab" * 32,
            }
            (tmp_path / name).mkdir()
            one = Instance(valkey, sections)
            opened_ones.callback(one.close)
            return one

        yield Machines(machine("reads"), machine("indexes"))


def found(machines: Machines, corpus: str = "default") -> set[str]:
    reader = machines.indexes.context.readers.reader(corpus)
    reader.reload()
    return {one.document_id for one in reader.all_facts()}


def test_a_document_goes_from_machine_to_machine(machines: Machines, tmp_path: Path) -> None:
    machines.reads.adds("The boiler is heated to 80 degrees.", "The crane lifts three tons.")
    machines.work()
    assert found(machines) == {"doc-0", "doc-1"}
    assert not (tmp_path / "reads" / "blobs").exists()


def test_while_the_store_is_away_events_wait_however_long(machines: Machines, place: Place) -> None:
    run_id = machines.reads.adds("The boiler is heated to 80 degrees.")
    machines.reads.works("chunk")
    if place.server is None:
        pytest.skip("a folder is never away")
    place.server.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(StoreDown):
            machines.reads.adds("This one is refused.")
        for _ in range(7):  # more often than a stage tries
            machines.reads.works_once("embed")
            wake_waiting(machines.reads)
    finally:
        place.server.send_signal(signal.SIGCONT)
    machines.work()
    assert found(machines) == {"doc-0"}
    assert machines.reads.gaps(run_id) == ()
    assert machines.reads.context.ledger.dead_letters.list() == []


def test_an_agent_is_remembered_by_both(machines: Machines) -> None:
    here, there = Remembering(machines.reads), Remembering(machines.indexes)
    here.record(claude_stream(output="ValueError: no session cookie"), "auth")
    there.record(claude_stream(output="KeyError: 'user'"), "auth")
    machines.work()
    both = [one.context.memories.of(PROJECT).journal("auth").read() for one in machines]
    assert [len(one.iterations) for one in both] == [2, 2]
    assert both[0].iterations == both[1].iterations
    assert machines.reads.context.memories.names() == machines.indexes.context.memories.names() == (PROJECT,)


def test_an_export_of_one_machine_is_read_and_imported_by_the_other(machines: Machines) -> None:
    machines.reads.adds("The boiler is heated to 80 degrees.", "The crane lifts three tons.")
    machines.work()
    here, there = (CorpusDesk(one.context) for one in machines)
    told = there.export("default", OWN_MACHINE)
    machines.work()
    artefact_id = (told.links or {})["artefact"].rpartition("/")[2]
    whole = here.artefact(artefact_id, OWN_MACHINE).read_bytes()
    with here.receiving() as file:
        file.write(whole)
        uploaded = here.take_in(file).id
    assert uploaded.startswith(UPLOADED)
    machines.reads.context.ledger.corpora.create(
        "copy", machines.reads.context.ledger.corpora.one("docs").settings, "me"
    )  # type: ignore[union-attr]
    here.bring_in("copy", uploaded, OWN_MACHINE)
    machines.work()
    assert found(machines, "copy") == {"doc-0", "doc-1"}
    ForgetDesk(machines.reads.context).forget(ForgetRequest(corpus="default", document_id="doc-0"), OWN_MACHINE)
    for _ in range(3):
        machines.work()
        wake_waiting(machines.reads)
    for desk in (here, there):  # a copy on this machine counts no more
        for gone in (artefact_id, uploaded):
            with pytest.raises(NotFound):
                desk.artefact(gone, OWN_MACHINE)
    log = [read_whole(one.context.settings.data_dir, one.context.object_store) for one in machines]
    assert log[0] == log[1]
    assert b"doc-0" in log[0]


def test_the_machine_that_owns_the_index_takes_the_backup(machines: Machines, tmp_path: Path) -> None:
    machines.reads.adds("The boiler is heated to 80 degrees.")
    machines.work()
    target = Target(str(tmp_path / "one.backup"), ObjectStoreSettings())
    with pytest.raises(Conflict, match="owns the index"):
        take(machines.reads.context, target, OPEN)
    taken = take(machines.indexes.context, target, OPEN)
    assert taken.manifest.corpora["default"].documents == 1
    assert verify(machines.indexes.context.settings, target, OPEN.keys()).is_equal


def test_one_secret_is_of_all_machines(machines: Machines) -> None:
    assert secret_of(machines.reads.context.settings) == secret_of(machines.indexes.context.settings) == b"\xab" * 32
    without = machines.reads.context.settings.model_copy(update={"signing_key": None})
    with pytest.raises(InvalidSetting, match="signing_key"):
        secret_of(without)


def test_an_instance_moves_to_the_store_and_back(
    machines: Machines, place: Place, valkey: Valkey, tmp_path: Path
) -> None:
    """By backups: of one machine into the store, and of what is in the store to one machine."""
    (tmp_path / "alone").mkdir()
    alone = Instance(valkey, {"data_dir": tmp_path / "alone", "broker_url": valkey.settings.broker_location})
    with closing(alone.context):
        fill(alone)
        before = state(alone.context, asks=False)
        take(alone.context, Target(str(tmp_path / "one.backup"), ObjectStoreSettings()), OPEN)
        blobs = {one.sha256 for one in alone.context.blobs.kept()}
    shared = machines.reads.context.settings.model_copy(
        update={"data_dir": tmp_path / "moved", "ledger_url": None, "signing_key": None}
    )
    for name in ("moved", "again"):  # a second time finds what the first left in the store
        into = tmp_path / name
        one = shared.model_copy(update={"data_dir": into})
        restore(one, Target(str(tmp_path / "one.backup"), ObjectStoreSettings()), OPEN.keys(), "me", into=into)
        assert not (into / "blobs").exists()
        assert not (into / "memory").exists()
    with closing(opened(tmp_path / "moved", object_store=place.settings, signing_key="ab" * 32)) as context:
        there = {one.sha256 for one in context.blobs.kept()}
        assert {one for one in blobs if context.blobs.has(one)} == there
        assert state(context, asks=False)["memory"] == before["memory"]
        taken = take(context, Target(str(tmp_path / "two.backup"), ObjectStoreSettings()), OPEN)
        assert verify(context.settings, Target(taken.place, ObjectStoreSettings()), OPEN.keys()).is_equal
    back = shared.model_copy(update={"data_dir": tmp_path / "back", "object_store": ObjectStoreSettings()})
    restore(
        back, Target(str(tmp_path / "two.backup"), ObjectStoreSettings()), OPEN.keys(), "me", into=tmp_path / "back"
    )
    with closing(opened(tmp_path / "back")) as context:
        after = state(context, asks=False)
        assert {name: after[name] for name in ("docs", "manuals", "memory")} == {
            name: before[name] for name in ("docs", "manuals", "memory")
        }
        assert {one.sha256 for one in context.blobs.kept()} == there


def test_another_memory_of_the_same_name_is_not_written_over(
    machines: Machines, place: Place, valkey: Valkey, tmp_path: Path
) -> None:
    Remembering(machines.reads).record(claude_stream(output="KeyError: 'user'"), "auth")
    (tmp_path / "alone").mkdir()
    alone = Instance(valkey, {"data_dir": tmp_path / "alone", "broker_url": valkey.settings.broker_location})
    with closing(alone.context):
        fill(alone)
        take(alone.context, Target(str(tmp_path / "one.backup"), ObjectStoreSettings()), OPEN)
    shared = machines.reads.context.settings.model_copy(update={"data_dir": tmp_path / "moved", "ledger_url": None})
    with pytest.raises(Conflict, match="holds another memory/"):
        restore(
            shared,
            Target(str(tmp_path / "one.backup"), ObjectStoreSettings()),
            OPEN.keys(),
            "me",
            into=tmp_path / "moved",
        )
    assert not (tmp_path / "moved").exists()
