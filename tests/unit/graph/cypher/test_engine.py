"""Questions at the same time, after a fork, and after the process that forks was lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.contracts.errors import Overloaded
from sluice.graph.cypher.engine import ForkServer, run_text
from sluice.graph.cypher.files import newest_files
from tests.support.graph.cypher_file import shop_with_cypher


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    shop_with_cypher(folder)
    return newest_files(folder)[0].folder


def count(file: Path) -> object:
    return run_text("MATCH (d:Document) RETURN count(*)", {}, 10, file, 20)["rows"]


def request(file: Path, text: str, timeout_seconds: float) -> dict[str, object]:
    return {
        "folder": str(file), "text": text, "parameters": {}, "rows": 1, "bytes": 1_000, "timeout_seconds": timeout_seconds
    }  # fmt: skip


def test_many_threads_ask_at_once_and_each_gets_its_own_answer(file: Path) -> None:
    with ThreadPoolExecutor(12) as pool:
        told = list(pool.map(lambda n: run_text("RETURN $n", {"n": n}, 1, file, 20)["rows"], range(24)))
    assert told == [[[n]] for n in range(24)]


def test_more_than_may_run_wait_as_long_as_they_may_take_and_are_told_so(file: Path) -> None:
    with pytest.raises(Overloaded, match="too many"):
        ForkServer(at_once=0).run(request(file, "RETURN 1", 0.01), 0.01)


def test_a_forked_process_asks_by_a_process_of_its_own(file: Path) -> None:
    count(file)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(count, (file,)) == [[6]]
    assert count(file) == [[6]]


def test_a_lost_fork_server_is_started_again(file: Path) -> None:
    server = ForkServer()
    try:
        first = server.run(request(file, "RETURN 1", 5), 5)
        assert server.process_id is not None
        os.kill(server.process_id, signal.SIGKILL)
        assert server.run(request(file, "RETURN 1", 5), 5) == first
    finally:
        server.stop()


def test_a_stopped_fork_server_leaves_no_process(file: Path) -> None:
    server = ForkServer()
    server.run(request(file, "RETURN 1", 5), 5)
    process_id = server.process_id
    assert process_id is not None
    server.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)
