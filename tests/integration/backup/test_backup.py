"""A backup of everything comes back as it was, and only whole: nothing damaged, nothing half, nothing forgotten."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.contracts.errors import Conflict, Corrupted, Fenced, InvalidInput, NotFound
from sluice.contracts.event import Done
from sluice.contracts.ingest import CrawlDirected
from sluice.contracts.operations.dead_letters import DeadLetterPage
from sluice.disk.durable import lock_file
from sluice.index.settings import ObjectStoreSettings
from sluice.ledger.backup import BackupLease
from sluice.ledger.ledger import Claim
from sluice.ledger.retention import Pruning
from sluice.workers.backup import take as taking
from sluice.workers.backup.archive import Keys, Seal, extract
from sluice.workers.backup.restore import restore, verify
from sluice.workers.backup.take import Taken, record_taken, take
from sluice.workers.backup.target import Target
from sluice.workers.data_dir import INSTANCE_FILE, SIGNING_FILE
from sluice.workers.runtime.blob_store import BlobCollector
from tests.support.backup_story import fill, forgets, indexes, opened, park, state, wake_waiting, works
from tests.support.in_process import Instance, MakeInstance

STORE = ObjectStoreSettings()
OPEN, PASSPHRASE = Keys(), Seal(passphrase="correct horse")


@pytest.fixture
def full(make_instance: MakeInstance) -> Instance:
    instance = make_instance()
    fill(instance)
    return instance


def backed_up(instance: Instance, place: Path, seal: Seal | None = None) -> Taken:
    return take(instance.context, Target(str(place), STORE), seal or Seal())


def restored(instance: Instance, file: Path, into: Path, keys: Keys = OPEN, *, same: bool = False) -> Path:
    settings = instance.context.settings
    done = restore(settings, Target(str(file), STORE), keys, "me", keeps_instance=same, into=into)
    assert [one for one in done.compared if not one.is_equal] == []
    return into


@pytest.mark.parametrize("seal", [Seal(), PASSPHRASE], ids=["open", "sealed"])
def test_everything_comes_back_as_it_was(full: Instance, tmp_path: Path, seal: Seal) -> None:
    before = state(full.context)
    assert all(before[name] for name in ("letters", "keys", "forgotten", "memory", "question", "webhooks", "audit"))
    backed_up(full, tmp_path / "one.backup", seal)
    into = restored(full, tmp_path / "one.backup", tmp_path / "new", Keys(passphrase=PASSPHRASE.passphrase))
    with closing(opened(into)) as context:
        assert state(context) == before
        assert context.settings.instance.startswith("sluice-")
        assert (into / SIGNING_FILE).is_file() == seal.is_closed  # the instance's secret, in an encrypted one alone


def test_a_restored_instance_may_keep_its_name_and_begins_no_second_one_on_the_same_broker(
    full: Instance, tmp_path: Path
) -> None:
    backed_up(full, tmp_path / "one.backup")
    into = restored(full, tmp_path / "one.backup", tmp_path / "new", same=True)
    assert (into / INSTANCE_FILE).read_text() == "sluice\n"


def test_a_restored_instance_goes_on_with_what_was_under_way(full: Instance, tmp_path: Path) -> None:
    full.begins(CrawlDirected(url="https://example.org/b", depth=0))
    held = full.context.ledger.claim_next("crawl", "crawl-1", 300.0)
    assert isinstance(held, Claim)
    backed_up(full, tmp_path / "one.backup")
    with closing(opened(restored(full, tmp_path / "one.backup", tmp_path / "new"))) as context:
        with pytest.raises(Fenced):
            context.ledger.settle(held, Done())
        again = context.ledger.claim_next("crawl", "crawl-2", 300.0)
        assert isinstance(again, Claim)
        assert again.event.id == held.event.id
        assert context.ledger.lease("backup", "somebody", 1.0), "the backup's own lease came back with it"


def test_a_backup_with_the_index_brings_its_generations(full: Instance, tmp_path: Path) -> None:
    target = Target(str(tmp_path / "one.backup"), STORE)
    assert any("generations/" in name for name in take(full.context, target, Seal(), with_index=True).manifest.members)
    before = full.context.readers.reader("docs").generation
    with closing(opened(restored(full, tmp_path / "one.backup", tmp_path / "new"))) as context:
        assert context.readers.reader("docs").document_count == 12
        assert before is not None


def test_what_was_forgotten_since_the_backup_stays_forgotten(full: Instance, tmp_path: Path) -> None:
    backed_up(full, tmp_path / "one.backup")
    forgets(full, "doc-3")
    with closing(opened(restored(full, tmp_path / "one.backup", tmp_path / "new"))) as context:
        reader = context.readers.reader("docs")
        assert [name for name in ("doc-3", "doc-4") if reader.document(name)] == ["doc-4"]
        assert {one.value for one in context.ledger.forgotten.list()} >= {"gone-1", "doc-3"}
        journal = b"".join(path.read_bytes() for path in (tmp_path / "new" / "index" / "docs" / "journal").iterdir())
        assert b"storehouse 3 " not in journal
        with context.ledger.database.reading() as connection:
            driver = connection._driver  # noqa: SLF001
            told = "SELECT payload FROM events WHERE kind = 'DocumentsRemoved' AND status = 'ready'"
            rows = driver.execute(told).fetchall()
        assert any("doc-3" in row[0] for row in rows)  # so that the graph and all that follows the index lose it too


def test_what_was_forgotten_is_known_beside_the_backup_when_the_instance_is_gone(
    full: Instance, tmp_path: Path
) -> None:
    backed_up(full, tmp_path / "there" / "old.backup", PASSPHRASE)
    forgets(full, "doc-3")
    backed_up(full, tmp_path / "there" / "new.backup", PASSPHRASE)
    assert b"doc-3" not in (tmp_path / "there" / "forgotten.jsonl.age").read_bytes()
    gone = full.context.settings.model_copy(update={"data_dir": tmp_path / "gone"})
    target = Target(str(tmp_path / "there" / "old.backup"), STORE)
    done = restore(gone, target, Keys(passphrase="correct horse"), "me", into=tmp_path / "gone")
    assert done.forgotten == 1
    with closing(opened(tmp_path / "gone")) as context:
        assert context.readers.reader("docs").document("doc-3") is None


def test_a_flipped_bit_or_a_cut_end_is_refused_and_leaves_nothing(full: Instance, tmp_path: Path) -> None:
    draw, file, into = random.Random(7), tmp_path / "one.backup", tmp_path / "new"
    for seal, keys in ((Seal(), OPEN), (PASSPHRASE, Keys(passphrase="correct horse"))):
        backed_up(full, file, seal)
        whole = file.read_bytes()
        for number in range(14):
            place = draw.randrange(len(whole))
            flipped = bytes([whole[place] ^ (1 << draw.randrange(8))])
            file.write_bytes(whole[:place] + flipped + whole[place + 1 :] if number % 2 else whole[:place])
            with pytest.raises((Corrupted, InvalidInput)) as refused:
                restored(full, file, into, keys)
            assert "\n" not in str(refused.value)
        assert not into.exists()
        assert [path.name for path in tmp_path.iterdir() if "restor" in path.name] == []


def test_a_folder_that_holds_something_and_a_newer_schema_are_refused(
    full: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "one.backup"
    backed_up(full, file)
    with pytest.raises(Conflict, match="is not empty"):
        restored(full, file, full.context.settings.data_dir)
    monkeypatch.setattr("sluice.workers.backup.restore.schema_version", lambda: 3)
    with pytest.raises(Conflict, match="knows up to 3"):
        restored(full, file, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(NotFound):
        restored(full, tmp_path / "none", tmp_path / "new")
    (tmp_path / "text").write_text("no backup")
    with pytest.raises(InvalidInput, match="is no backup"):
        restored(full, tmp_path / "text", tmp_path / "new")


def test_a_backup_is_verified_by_its_restoration_even_by_one_who_cannot_open_it(full: Instance, tmp_path: Path) -> None:
    age = pytest.importorskip("pyrage")
    owner = age.x25519.Identity.generate()
    seal, target = Seal((str(owner.to_public()),)), Target(f"{tmp_path}/", STORE, "one.age")
    taken = take(full.context, target, seal)
    assert verify(full.context.settings, target, seal.keys()).is_equal
    record_taken(full.context, taken, "me", is_verified=True)
    assert full.context.ledger.last_backup_at("verified") > 0
    key = tmp_path / "key.txt"
    key.write_text(f"# mine\n{owner}\n")
    restored(full, tmp_path / "one.age", tmp_path / "new", Keys.read(key))
    other = Keys((age.x25519.Identity.generate(),))
    with pytest.raises(InvalidInput, match="does not open"):
        restored(full, tmp_path / "one.age", tmp_path / "other", other)


def test_while_a_backup_is_taken_nothing_is_removed(full: Instance, tmp_path: Path) -> None:
    context = full.context
    with BackupLease(context.ledger):
        with pytest.raises(Conflict, match="a backup is being taken"):
            Pruning(context.ledger.database).prune(datetime.now(UTC), "me")
        with pytest.raises(Conflict, match="reindexing"):
            context.ledger.require_no_backup("reindexing")
        forgets(full, "doc-5")
        assert context.readers.reader("docs").document("doc-5") is not None, "it waits"
        collector = BlobCollector(context.blobs, context.ledger)
        collector.tick()
        assert not collector.is_collecting
        with pytest.raises(Conflict, match="another backup"), BackupLease(context.ledger, 0.2):
            pass
    for _ in range(3):
        works(full)
        wake_waiting(full)
    context.readers.reader("docs").reload()
    assert context.readers.reader("docs").document("doc-5") is None


def test_documents_that_come_and_journals_that_are_compacted_meanwhile_leave_a_cut_of_one_moment(
    full: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = taking.copy_ledger

    def then_more_comes(*told: object) -> object:
        done = copy(*told)  # type: ignore[arg-type]
        indexes(full, {f"late-{n}": f"Late paper {n} about cranes." for n in range(6)})
        return done

    monkeypatch.setattr(taking, "copy_ledger", then_more_comes)
    backed_up(full, tmp_path / "one.backup")
    with closing(opened(restored(full, tmp_path / "one.backup", tmp_path / "new"))) as context:
        assert context.readers.reader("docs").document("late-5") is not None, "the journal is ahead of the ledger"


def test_a_run_says_what_a_replay_has_mended(full: Instance) -> None:
    ledger = full.context.ledger
    park(ledger)
    letter = ledger.dead_letters.list(DeadLetterPage())[0]
    assert letter.run_id is not None
    before = ledger.run(letter.run_id)
    assert (len(before.missing), before.mended) == (1, ())
    ledger.dead_letters.replay(letter.id, "me")
    claim = ledger.claim_next("crawl", "crawl-1", 30.0)
    assert isinstance(claim, Claim)
    ledger.settle(claim, Done())
    run = ledger.run(letter.run_id)
    assert (run.status, run.missing, [gap.reason for gap in run.mended]) == ("finished", (), ["policy"])


def test_an_archive_holds_no_broker_no_spans_and_no_secrets(full: Instance, tmp_path: Path) -> None:
    (full.context.settings.data_dir / "spans.sqlite").write_bytes(b"spans")
    names = backed_up(full, tmp_path / "one.backup").manifest.members
    assert not [one for one in names if one.startswith(("spans", "metrics", "broker", "api.json", SIGNING_FILE))]
    with Keys().reading((tmp_path / "one.backup").open("rb")) as source:
        extract(source, tmp_path / "unpacked")
    assert "password" not in (tmp_path / "unpacked" / "config" / "settings.json").read_text()


@pytest.fixture(autouse=True)
def quick_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.ledger.backup.LEASE_SECONDS", 5.0)


def test_a_data_directory_that_is_a_mount_of_its_own_is_filled_and_the_ledger_comes_last(
    full: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backed_up(full, tmp_path / "one.backup")
    into = tmp_path / "mounted"
    into.mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == into)
    with monkeypatch.context() as dying:
        dying.setattr("sluice.workers.backup.restore.os.replace", _fails_at_the_ledger)
        dying.setattr("sluice.workers.backup.restore.shutil.rmtree", lambda *_, **__: None)  # as one that is killed
        with pytest.raises(KeyboardInterrupt):
            restored(full, tmp_path / "one.backup", into)
    assert (into / "index").is_dir()
    assert not (into / "ledger.sqlite").exists()
    restored(full, tmp_path / "one.backup", into)
    assert not (into / ".restoring").exists()
    with closing(opened(into)) as context:
        assert context.readers.reader("docs").document_count == 12


def _fails_at_the_ledger(source: Path, target: Path) -> None:
    if Path(source).name == "ledger.sqlite":
        raise KeyboardInterrupt
    source.rename(target)


def test_a_mount_that_was_restored_whole_is_not_emptied_for_the_next_restoration(
    tmp_path: Path, full: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    backed_up(full, tmp_path / "one.backup")
    into = tmp_path / "mounted"
    (into / ".restoring").mkdir(parents=True)  # killed after its last file had its place: all of it is there
    (into / "instance").write_text("sluice-1\n")  # with a ledger in PostgreSQL there is no file of one
    monkeypatch.setattr(Path, "is_mount", lambda path: path == into)
    with pytest.raises(Conflict, match="not empty"):
        restored(full, tmp_path / "one.backup", into)
    assert (into / "instance").read_text() == "sluice-1\n"


def test_what_a_restoration_under_way_has_put_in_place_is_left_alone_by_another(
    tmp_path: Path, full: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    backed_up(full, tmp_path / "one.backup")
    into = tmp_path / "mounted"
    (into / ".restoring" / "index").mkdir(parents=True)
    (into / "blobs").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == into)
    with lock_file(tmp_path / ".mounted.restore.lock", Conflict("held")), pytest.raises(Conflict, match="under way"):
        restored(full, tmp_path / "one.backup", into)
    assert (into / "blobs").is_dir()
