"""Whatever dies between the journal, the ledger and the index: an iteration is there once, and gets into the index."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from sluice.contracts.errors import Overloaded
from sluice.memory.journal.entry import JournalEntry
from sluice.workers.processes.watches.corpora import MemoryWatch
from tests.integration.pipeline.killed_recorder import WORKER
from tests.support.in_process import MakeInstance
from tests.support.memory.instance import PROJECT, Remembering, claude_stream
from tests.support.repository import REPOSITORY

FAILED = 'Traceback (most recent call last):\n  File "src/auth.py", line 3, in login\nValueError: no session cookie\n'
STREAM = claude_stream(output=FAILED, command="python src/auth.py")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def die(memory: Remembering, point: str, data: str = "") -> None:
    """Run the recorder until it kills itself."""
    killed = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.integration.pipeline.killed_recorder",
            str(memory.instance.context.settings.data_dir),
            point,
        ],
        cwd=REPOSITORY,
        input=data,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def entries_of(memory: Remembering) -> list[str]:
    """The ids of the iterations in the journal."""
    entries = map(JournalEntry.from_json_line, memory.memory.export("auth"))
    return [one.id for one in entries if one.body.kind == "iteration"]


@pytest.mark.parametrize("point", ["transact.after", "create_run.before", "create_run.after"])
def test_a_submission_that_is_sent_again_is_one_entry_with_one_run(make_instance: MakeInstance, point: str) -> None:
    memory = Remembering(make_instance())
    die(memory, point, STREAM)
    assert len(entries_of(memory)) == 1
    again = memory.record(STREAM)
    assert not again.is_new
    assert [again.entry_id] == entries_of(memory)
    assert len(memory.instance.context.ledger.runs()) == 1
    memory.index()
    assert again.entry_id in memory.indexed()


def test_a_submission_that_is_never_sent_again_gets_into_the_index_too(make_instance: MakeInstance) -> None:
    memory = Remembering(make_instance())
    die(memory, "create_run.before", STREAM)
    assert memory.instance.context.ledger.runs() == []
    MemoryWatch(memory.instance.context).look()
    memory.index()
    assert set(entries_of(memory)) <= memory.indexed().keys()
    MemoryWatch(memory.instance.context).look()
    assert len(memory.instance.context.ledger.runs()) == 1


@pytest.mark.parametrize("point", ["handler:transact.after", "handler:settle.before"])
def test_a_worker_that_dies_behind_the_journal_leaves_nothing_out(make_instance: MakeInstance, point: str) -> None:
    memory = Remembering(make_instance())
    fixed = claude_stream("s2", command="python src/auth.py", summary="Sent the cookie over HTTPS, and it works.")
    memory.record(STREAM)
    memory.record(fixed)
    die(memory, point)
    memory.instance.context.ledger.release(WORKER)
    memory.index()
    proof = memory.memory.prove("auth")
    assert proof.is_equal, proof
    assert proof.indexed == proof.documents > 1


def test_what_a_full_queue_refused_is_sent_later_and_what_the_guard_holds_is_not_sent_again(
    make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Remembering(make_instance())

    def refuse(*_: object) -> None:
        raise Overloaded("20000 events wait")

    with monkeypatch.context() as full:
        full.setattr(memory.instance.context.admission, "admit", refuse)
        assert memory.record(STREAM).run is None
    now = START
    watch = MemoryWatch(memory.instance.context, lambda: now)
    watch.look()
    assert len(memory.instance.context.ledger.runs()) == 1
    watch.look()
    assert len(memory.instance.context.ledger.runs()) == 1, "its run is under way"
    memory.index()
    now += timedelta(hours=2)
    watch.look()
    assert len(memory.instance.context.ledger.runs()) == 1
    assert set(entries_of(memory)) <= memory.indexed().keys()


def test_f24_a_collection_without_a_journal_is_shown_and_removed_only_on_request(make_instance: MakeInstance) -> None:
    memory = Remembering(make_instance())
    memory.record(STREAM)
    kept = memory.record(claude_stream("s9", output=FAILED), "payments")
    memory.index()
    folder = memory.desk.memories.of(PROJECT).folder
    (folder / "auth.jsonl").unlink()
    again = Remembering(memory.instance)
    [orphan] = again.memory.orphans()
    assert again.memory.status().orphans == (orphan,)
    MemoryWatch(memory.instance.context).look()
    memory.index()
    assert memory.indexed("auth")
    assert again.memory.drop_orphans() == (orphan,)
    memory.index()
    assert memory.indexed("auth") == {}
    assert kept.entry_id in memory.indexed("payments")
    assert again.memory.orphans() == ()
