"""The ledger across processes: opened at once, forked, raced for, and left by workers that die."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from sluice.contracts.errors import Conflict, Fenced, InvalidSetting, Unavailable
from sluice.contracts.event import Done, Next
from sluice.contracts.ingest import SearchDirected
from sluice.ledger.ledger import Claim, Ledger
from tests.support.ledger_story import Clock, Story, page

FORK = multiprocessing.get_context("fork")


def open_ledger(url: str, answers: Connection) -> None:
    with Ledger(url) as ledger:
        answers.send(ledger.open_count())


def settle_all(url: str, worker: str, answers: Connection) -> None:
    """Claim and settle until nothing is ready, and tell what."""
    settled = []
    with Ledger(url) as ledger:
        while isinstance(claim := ledger.claim_next("crawl", worker, 30.0), Claim):
            emitted = ledger.settle(claim, Done((Next(query_of(claim), dedupe_key=f"of {claim.event.id}"),)))
            settled.append((claim.event.id, len(emitted.emitted)))
        answers.send(settled)


def query_of(claim: Claim) -> SearchDirected:
    return SearchDirected(query=claim.event.id, top_k=1)


def claim_and_die(url: str) -> None:
    with Ledger(url) as ledger:
        ledger.claim_next("crawl", "doomed", 30.0)
        os.kill(os.getpid(), signal.SIGKILL)


def in_processes(target: object, arguments: list[tuple[object, ...]]) -> list[object]:
    """What each process sent."""
    running = []
    for given in arguments:
        mine, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(target=target, args=(*given, theirs))  # type: ignore[arg-type]
        process.start()
        running.append((process, mine))
    answers = [mine.recv() if mine.poll(60) else None for _, mine in running]
    for process, _ in running:
        process.join(90)
        assert process.exitcode == 0
    return answers


def test_many_processes_may_open_a_new_ledger_at_once(ledger_url: str) -> None:
    assert in_processes(open_ledger, [(ledger_url,)] * 3) == [0, 0, 0]


def test_processes_that_race_for_the_same_events_settle_each_exactly_once(story: Story) -> None:
    events = story.begins(*(page(number) for number in range(60)))
    ids = [event.id for event in events]
    answers = in_processes(settle_all, [(story.url, f"w{number}") for number in range(3)])
    settled = [pair for answer in answers for pair in answer]  # type: ignore[attr-defined]
    assert sorted(settled) == sorted((event_id, 1) for event_id in ids)
    view = story.ledger.run(events[0].run_id)
    assert (view.settled_events, view.open_events) == (60, 60)


def test_what_a_killed_worker_claimed_is_handled_by_another(story: Story) -> None:
    story.clock.now = 0.0  # long before the process's own clock, so that its lease holds
    [event] = story.begins(page())
    process = FORK.Process(target=claim_and_die, args=(story.url,))
    process.start()
    process.join(90)
    assert process.exitcode == -signal.SIGKILL
    assert story.statuses(event) == "claimed"
    assert story.ledger.release("doomed") == (("crawl", event.id),)
    assert story.ledger.settle(story.claims(event), Done()).finished


def test_a_forked_child_makes_connections_of_its_own(story: Story) -> None:
    [event] = story.begins(page())
    child = os.fork()
    if child == 0:
        try:
            story.ledger.settle(story.claims(event, "child"), Done())
            story.ledger.close()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert story.statuses(event) == "settled"


def test_threads_share_a_ledger(story: Story) -> None:
    events = story.begins(*(page(number) for number in range(24)))
    finished: list[bool] = []

    def work(mine: tuple[object, ...]) -> None:
        for _ in mine:
            claim = story.ledger.claim_next("crawl", "w1", 10.0)
            assert isinstance(claim, Claim)
            finished.append(story.ledger.settle(claim, Done()).finished)

    threads = [threading.Thread(target=work, args=(events[start::6],)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(finished) == [False] * 23 + [True]
    assert len(story.ledger.events_of_kind(events[0].run_id, "RunFinished")) == 1


def test_a_ledger_of_a_newer_version_is_refused(story: Story) -> None:
    engine = create_engine(story.url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE schema_version SET version = version + 1"))
    engine.dispose()
    with pytest.raises(Conflict, match="upgrade"):
        Ledger(story.url)


def test_a_ledger_is_opened_again_with_all_it_held(story: Story) -> None:
    [event] = story.begins(page())
    story.ledger.close()
    with Ledger(story.url, clock=story.clock) as again:
        assert again.event(event.id) == event


@pytest.mark.parametrize("url", ["nonsense", "sqlite://", "sqlite:///:memory:", "mysql://host/x"])
def test_a_url_that_cannot_hold_a_ledger_is_named(url: str) -> None:
    with pytest.raises(InvalidSetting, match="ledger_url"):
        Ledger(url)


class TestSyncOnSqlite:
    @pytest.fixture
    def synced(self, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
        """The files that were synced, in order."""
        files, sync = list[Path](), os.fdatasync

        def note(descriptor: int) -> None:
            sync(descriptor)
            files.append(Path(f"/proc/self/fd/{descriptor}").readlink())

        monkeypatch.setattr(os, "fdatasync", note)
        return files

    @pytest.fixture
    def on_sqlite(self, tmp_path: Path, clock: Clock) -> Iterator[Story]:
        url = f"sqlite:///{tmp_path / 'l.sqlite'}"
        with Ledger(url, clock=clock) as ledger:
            yield Story(ledger, clock, url)

    def test_what_is_settled_is_on_the_disk_before_anybody_is_told(
        self, on_sqlite: Story, synced: list[Path], tmp_path: Path
    ) -> None:
        on_sqlite.begins(page())
        assert synced == [tmp_path / "l.sqlite-wal"]
        claim = on_sqlite.ledger.claim_next("crawl", "w1", 30.0)
        assert isinstance(claim, Claim)
        assert len(synced) == 1
        on_sqlite.ledger.settle(claim, Done())
        assert synced == [tmp_path / "l.sqlite-wal"] * 2

    def test_a_disk_that_fails_then_is_told_and_what_was_settled_is_not_done_again(
        self, on_sqlite: Story, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        claim = on_sqlite.claims(*on_sqlite.begins(page()))

        def fail(_descriptor: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", fail)
            with pytest.raises(Unavailable, match="synced: Input/output error"):
                on_sqlite.ledger.settle(claim, Done())
        with pytest.raises(Fenced):
            on_sqlite.ledger.settle(claim, Done())

    def test_a_log_that_was_made_anew_is_the_one_that_is_synced(
        self, on_sqlite: Story, synced: list[Path], tmp_path: Path
    ) -> None:
        on_sqlite.begins(page())
        on_sqlite.ledger.close()
        assert not (tmp_path / "l.sqlite-wal").exists()
        on_sqlite.begins(page())
        assert synced == [tmp_path / "l.sqlite-wal"] * 2


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("SELECT id FROM events WHERE run_id = ? AND due_at >= 0 LIMIT 1", "events_open"),
        (
            "SELECT seq FROM events WHERE status = 'ready' AND queue = ? AND deaths = 0"
            " ORDER BY priority, turn, seq LIMIT 1",
            "events_ready",
        ),
        ("SELECT seq FROM events WHERE status = 'ready' AND deaths > 0 AND queue = ? ORDER BY seq", "events_suspect"),
        (
            "SELECT turn FROM events WHERE status = 'ready' AND deaths = 0 AND queue = ? AND priority = ?"
            " ORDER BY turn LIMIT 1",
            "events_ready",
        ),
        (
            "SELECT turn FROM events WHERE status = 'ready' AND deaths = 0 AND queue = ? AND priority = ?"
            " AND lane = ? ORDER BY turn DESC LIMIT 1",
            "events_in_lane",
        ),
        (
            "SELECT count(*) FROM events WHERE status = 'ready' AND queue = ? AND priority = ? AND lane = ?",
            "events_in_lane",
        ),
        ("SELECT id FROM events WHERE status = 'claimed' AND worker = ?", "events_held"),
        ("SELECT payload FROM events WHERE run_id = ? AND kind = 'GapFound' ORDER BY seq", "events_of_kind"),
        ("SELECT payload FROM events WHERE run_id = ? AND seq > 9 ORDER BY seq LIMIT 9", "events_of_run"),
        ("SELECT run_id FROM runs WHERE answer_due_at <= ? ORDER BY answer_due_at", "runs_answer_due"),
        (
            "SELECT status, queue, count(*), min(due_at) FROM events WHERE due_at IS NOT NULL GROUP BY status",
            "events_due",
        ),
    ],
)
def test_the_questions_of_every_event_are_answered_by_an_index(tmp_path: Path, query: str, index: str) -> None:
    path = tmp_path / "l.sqlite"
    Ledger(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", ("x",) * query.count("?")).fetchall()
    assert index in str(plan), plan
