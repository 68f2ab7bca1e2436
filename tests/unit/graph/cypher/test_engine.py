"""Questions at the same time and after a fork, and what is left of their processes."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.contracts.errors import Overloaded, SluiceError
from sluice.graph.cypher import run
from sluice.graph.cypher.engine_file import newest_files
from sluice.graph.cypher.run import run_text
from tests.support.graph.cypher_file import shop_with_cypher


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    shop_with_cypher(folder)
    return newest_files(folder)[0].folder


def count(file: Path) -> object:
    return run_text("MATCH (d:Document) RETURN count(*)", {}, 10, file, 20)["rows"]


def test_many_threads_ask_at_once_and_each_gets_its_own_answer(file: Path) -> None:
    with ThreadPoolExecutor(12) as pool:
        told = list(pool.map(lambda n: run_text("RETURN $n", {"n": n}, 1, file, 20)["rows"], range(24)))
    assert told == [[[n]] for n in range(24)]


def test_more_than_may_run_wait_as_long_as_they_may_take_and_are_told_so(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_at_once", threading.BoundedSemaphore(0))
    with pytest.raises(Overloaded, match="too many"):
        run_text("RETURN 1", {}, 1, file, 0.01)


def test_a_forked_process_asks_by_a_process_of_its_own(file: Path) -> None:
    count(file)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(count, (file,)) == [[6]]
    assert count(file) == [[6]]


def test_a_question_leaves_no_process_whatever_became_of_it(file: Path) -> None:
    before = set(children())
    count(file)
    with pytest.raises(SluiceError):
        run_text("UNWIND range(1, 100000000) AS x RETURN collect(x)", {}, 10, file, 1)
    assert set(children()) == before


def test_a_process_has_nothing_of_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was started, by /proc/PID/environ, which no later clearing changes."""
    monkeypatch.setenv("NEO4J_PASSWORD", "secret")
    seen: set[bytes] = set()
    with ThreadPoolExecutor(1) as pool:
        before = set(children())
        asked = pool.submit(run_text, "UNWIND range(1, 100000000) AS x RETURN collect(x)", {}, 10, file, 1)
        while not asked.done():
            for child in set(children()) - before:
                with suppress(OSError):
                    seen.add(Path(f"/proc/{child}/environ").read_bytes())
    assert isinstance(asked.exception(), SluiceError)
    assert b"" in seen
    assert not any(b"secret" in found for found in seen)


def children() -> list[str]:
    """Of this process, by all its threads."""
    tasks = Path("/proc/self/task").iterdir()
    return [child for task in tasks for child in (task / "children").read_text().split()]
