"""The reading of one document is bounded in processor time, whether its code can be interrupted or not."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from sluice.workers.steps.chunk import ReadingStopped, bounded_reading, cpu_seconds_for
from tests.support.repository import IMPORT_PATH

NEVER_RETURNS = """
from itertools import repeat
from sluice.workers.steps import chunk
chunk.GRACE_SECONDS = 0
with chunk.bounded_reading(0.1):
    sum(repeat(1))
"""


def test_code_that_swallows_every_exception_is_stopped() -> None:
    def read() -> None:
        with bounded_reading(0.3):
            while True:
                with suppress(Exception):
                    sum(range(10_000))

    with pytest.raises(ReadingStopped):
        read()


def test_code_that_does_not_return_to_python_ends_its_process_alone() -> None:
    child = subprocess.run([sys.executable, "-c", NEVER_RETURNS], env={"PYTHONPATH": IMPORT_PATH}, timeout=60)
    assert child.returncode == -signal.SIGXCPU


def test_nothing_of_the_bound_is_left_after_it() -> None:
    before = resource.getrlimit(resource.RLIMIT_CPU)
    with bounded_reading(0.1):
        time.sleep(0.6)  # waiting takes no processor time
    signal.raise_signal(signal.SIGALRM)  # a last alarm, on its way when the reading ended
    assert resource.getrlimit(resource.RLIMIT_CPU) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_another_thread_reads_without_a_bound() -> None:
    def read() -> None:
        with bounded_reading(0.0):
            ended.append(sum(range(1_000)))

    ended: list[int] = []
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert ended


def test_a_larger_document_may_take_longer_and_none_as_long_as_its_worker_may_take() -> None:
    assert cpu_seconds_for(0) < cpu_seconds_for(5_000_000) < cpu_seconds_for(1_000_000_000) < 60
