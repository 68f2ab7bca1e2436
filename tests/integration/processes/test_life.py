"""Processes know their names, give signs of life, hear signals whatever they do, and leave no orphan and no zombie."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sluice.workers.processes.background import StallDetector
from sluice.workers.processes.kernel import (
    LIFELINE,
    ZOMBIE,
    all_processes,
    anonymous_bytes,
    belongs_to,
    child_name,
    descendants,
    environment,
    facts_of,
    worker_name,
)
from sluice.workers.processes.shutdown import stacks
from tests.support.repository import REPOSITORY
from tests.support.waiting import until


def runs(program: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n{program}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload,no-any-return]


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_worker_and_the_children_of_its_pool_have_names_of_their_own() -> None:
    worker = worker_name("crawl", 12)
    assert belongs_to(worker, worker)
    assert belongs_to(child_name(worker, 345), worker)
    assert not belongs_to(worker_name("crawl", 123), worker)
    assert not belongs_to(worker, child_name(worker, 345))


def test_signs_of_life_come_while_the_main_thread_is_busy_and_stop_when_the_process_is_stopped() -> None:
    ear, mouth = os.pipe2(os.O_NONBLOCK)
    program = "from sluice.workers.processes.kernel import give_signs_of_life; give_signs_of_life(); import time; time.sleep(60)"
    child = runs(program, env={**os.environ, LIFELINE: str(mouth)}, pass_fds=[mouth])
    os.close(mouth)
    until(lambda: heard(ear))
    until(lambda: heard(ear))
    child.send_signal(signal.SIGSTOP)
    until(lambda: state(child.pid) == "T")
    heard(ear)
    time.sleep(2.5)  # two signs would have come
    assert not heard(ear)
    child.send_signal(signal.SIGCONT)
    until(lambda: heard(ear))
    child.kill()
    child.wait()
    os.close(ear)


def test_a_process_without_a_supervisor_gives_signs_to_nobody() -> None:
    program = "from sluice.workers.processes.kernel import give_signs_of_life; give_signs_of_life(); import threading\n"
    child = runs(program + "print(threading.active_count())")
    assert said(child) == "1"
    child.wait()


def test_signals_are_heard_while_the_main_thread_waits_for_a_lock_and_not_for_a_child_of_its_own() -> None:
    program = """
import os, signal, threading
from sluice.workers.processes.kernel import hear_signals
hear_signals(lambda number: (print(signal.Signals(number).name, flush=True), number == 3 and os._exit(0)))
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
    signal.pause()
print(child, flush=True)
lock = threading.Lock()
lock.acquire()
lock.acquire()
"""
    parent = runs(program)
    child = int(said(parent))
    until(lambda: state(child) == "S")
    os.kill(child, signal.SIGTERM)
    until(lambda: state(child) == ZOMBIE)
    parent.send_signal(signal.SIGINT)
    assert said(parent) == "SIGINT", "the child's SIGTERM is not the parent's"
    parent.send_signal(signal.SIGQUIT)
    assert said(parent) == "SIGQUIT"
    assert parent.wait(60) == 0


def test_a_family_is_found_and_a_process_that_is_gone_is_none() -> None:
    child = runs("import os, signal; os.fork(); print('forked', flush=True); signal.pause()")
    said(child)
    said(child)
    family = list(descendants(os.getpid(), all_processes()))
    assert child.pid in {process.pid for process in family}
    assert [process.group for process in family if process.parent == child.pid] == [os.getpgrp()]
    for process in descendants(child.pid, all_processes()):
        os.kill(process.pid, signal.SIGKILL)
    child.kill()
    child.wait()
    assert facts_of(child.pid) is None
    assert anonymous_bytes(child.pid) == 0
    assert environment(child.pid) == {}


def test_memory_that_is_mapped_from_a_file_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(bytes(64_000_000))
    mapped = (
        f"import mmap; f = open({str(tmp_path / 'index')!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"
    )
    programs = [f"{mapped}; sum(m[::4096])", "own = bytearray(64_000_000)"]
    children = [runs(f"{program}; print('ready', flush=True); import signal; signal.pause()") for program in programs]
    for child in children:
        assert said(child) == "ready"
    of_a_file, of_its_own = (anonymous_bytes(child.pid) for child in children)
    assert of_its_own > 64_000_000
    assert of_a_file < 40_000_000
    for child in children:
        child.kill()
        child.wait()


# -- deafness


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def looks(facts: Sequence[tuple[int, int, bool]], seconds: float = 1.0) -> list[bool]:
    """What each look says, one every `seconds`, at (wake-ups handled, events in hand, whether wake-ups wait)."""
    clock, found = Clock(), []
    stall_detector = StallDetector(3.0, clock)
    for handled, in_hand, waits in facts:
        clock.now += seconds
        found.append(stall_detector.look(handled, in_hand, lambda answer=waits: answer))  # type: ignore[misc]
    return found


def test_who_takes_nothing_from_a_queue_that_is_not_empty_is_deaf_after_a_while() -> None:
    assert looks([(0, 0, True)] * 4) == [False, False, True, True]


def test_progress_work_in_hand_or_an_empty_queue_begin_the_while_anew() -> None:
    idle = (0, 0, True)
    assert not any(looks([idle, idle, (1, 0, True), (1, 0, True), (1, 0, True)]))
    assert not any(looks([idle, idle, (0, 1, True), idle, idle]))
    assert not any(looks([idle, idle, (0, 0, False), idle, idle]))


def test_a_worker_of_a_paused_stage_is_not_deaf_as_it_uses_its_wake_ups_up() -> None:
    assert not any(looks([(number, 0, True) for number in range(20)]))


def test_time_that_the_process_slept_through_does_not_count() -> None:
    assert looks([(0, 0, True)] * 2, seconds=3_600) == [False, True]


def test_the_stacks_of_all_threads_can_be_told() -> None:
    import threading

    ready, done = threading.Event(), threading.Event()

    def waits_for_godot() -> None:
        ready.set()
        done.wait()

    thread = threading.Thread(target=waits_for_godot, name="estragon")
    thread.start()
    ready.wait()
    assert "estragon" in stacks()
    assert "waits_for_godot" in stacks()
    done.set()
    thread.join()


# -- the words above


def heard(ear: int) -> bool:
    try:
        return bool(os.read(ear, 4_096))
    except BlockingIOError:
        return False


def state(process_id: int) -> str:
    facts = facts_of(process_id)
    return facts.state if facts else ""
