"""Whatever is asked: nothing changes, nothing outside is read, and no question goes on beyond its bounds."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidInput, SluiceError, TimedOut
from sluice.contracts.graph.api import CypherRequest
from sluice.graph.cypher.engine_file import newest_files
from sluice.graph.cypher.run import MAX_RESULT_BYTES, find_layers, run_cypher, run_text
from tests.support.graph.cypher_file import shop_with_cypher
from tests.support.graph.hostile_cypher import BOUNDED, REFUSED

CANARY = "canary-3f81c2"
PARAMETERS = {
    "ids": ["cart", "test"], "p": 3, "long": "a" * 100_000, "injection": "x'}) RETURN 1; DROP TABLE Document; //"
}  # fmt: skip


class World:
    """A published graph, a file outside of it, and what is on the disk."""

    def __init__(self, folder: Path) -> None:
        self.graph = folder / "graph"
        shop_with_cypher(self.graph)
        self.file = newest_files(self.graph)[0].folder
        self.canary = folder / "canary.csv"
        self.canary.write_text(f"{CANARY}|x\n")
        self.outside = folder / "outside.csv"
        self._before = self._state(folder)
        self._folder = folder

    def fill(self, query: str) -> str:
        return query.replace("{canary}", str(self.canary)).replace("{outside}", str(self.outside))

    def is_unchanged(self) -> bool:
        return self._state(self._folder) == self._before

    def _state(self, folder: Path) -> dict[str, str]:
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            for path in sorted(folder.rglob("*"))
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("hostile"))


def test_no_refused_statement_leaves_a_trace(world: World) -> None:
    for query, _ in REFUSED:
        if not query or len(query) > 10_000:
            continue
        with pytest.raises(InvalidInput, match=r"^query: "):
            run_cypher(CypherRequest(query=world.fill(query), parameters=PARAMETERS), world.graph)
    assert world.is_unchanged()


@pytest.mark.parametrize("query", BOUNDED, ids=range(len(BOUNDED)))
def test_what_is_let_through_stays_within_its_bounds(world: World, query: str) -> None:
    began = time.monotonic()
    told = _told(CypherRequest(query=query, parameters=PARAMETERS, limit=1_000, timeout_seconds=1), world.graph)
    assert CANARY not in told
    assert str(world.graph) not in told
    assert len(told) < 2 * MAX_RESULT_BYTES
    assert time.monotonic() - began < 10
    assert world.is_unchanged()


def _told(request: CypherRequest, folder: Path) -> str:
    try:
        result = run_cypher(request, folder)
    except (InvalidInput, TimedOut) as error:
        return str(error)
    assert len(result.rows) <= request.limit
    return result.model_dump_json()


_LEFT_OUT = {
    "no mounts": ("mounts",),
    "no Landlock": ("landlock",),
    "no seccomp": ("seccomp",),
    "no namespace": ("network",),
}
JAILS = pytest.mark.parametrize(
    "without",
    [
        pytest.param((), id="all layers"),
        pytest.param(("mounts", "root"), id="Landlock alone"),
        *(pytest.param(layers, id=name, marks=pytest.mark.slow) for name, layers in _LEFT_OUT.items()),
    ],
)

RAW = (
    "LOAD FROM '/etc/passwd' (header=false, delim='|', file_format='csv') RETURN *",
    "LOAD FROM '{canary}' (header=false, delim='|') RETURN *",
    "LOAD FROM '../../canary.csv' (header=false, delim='|') RETURN *",
    "LOAD FROM '/proc/self/environ' (header=false, file_format='csv') RETURN *",
    "LOAD FROM 'http://127.0.0.1:1/x.csv' RETURN *",
    "COPY (MATCH (n:Document) RETURN n.id) TO '{outside}'",
    "COPY (MATCH (n:Document) RETURN n.id) TO 'beside.csv'",
    "COPY (MATCH (n:Document) RETURN n.id) TO '/tmp/beside.csv'",
    "COPY Document FROM '{canary}' (header=false, delim='|')",
    "EXPORT DATABASE '{outside}'",
    "IMPORT DATABASE '{outside}'",
    "ATTACH '{canary}' AS other (dbtype lbug)",
    "INSTALL httpfs",
    "INSTALL json FROM 'http://127.0.0.1:1/'",
    "LOAD EXTENSION '{canary}'",
    "CREATE (:Document {id: 'x'})",
    "MATCH (n) DETACH DELETE n",
    "DROP TABLE LINKS_TO",
    "CHECKPOINT",
)
"""What an engine that is opened for reading only would do in part: it wrote, read and went to the network there."""


@JAILS
@pytest.mark.parametrize("query", RAW)
def test_without_the_guard_the_jail_alone_keeps_files_and_network_closed(
    world: World, query: str, without: tuple[str, ...]
) -> None:
    with pytest.raises(SluiceError) as caught:
        run_text(world.fill(query), {}, 10, world.file, 3, without=without)
    assert CANARY not in str(caught.value)
    assert "root:" not in str(caught.value)
    assert world.is_unchanged()
    assert not Path("/tmp/beside.csv").exists()


@JAILS
def test_each_jail_answers_questions(world: World, without: tuple[str, ...]) -> None:
    told = run_text("MATCH (n:Document) RETURN count(*)", {}, 10, world.file, 5, without=without)
    assert told["rows"] == [[6]]
    assert set(without).isdisjoint(find_layers(world.file, without=without)["layers"])


@pytest.mark.parametrize("without", [("mounts", "root", "landlock"), ("network", "seccomp")])
def test_where_files_or_network_cannot_be_closed_nothing_runs(world: World, without: tuple[str, ...]) -> None:
    with pytest.raises(SluiceError, match="cannot lock up the process"):
        run_text("RETURN 1", {}, 10, world.file, 5, without=without)


def test_a_crash_of_the_engine_costs_its_child_alone(world: World) -> None:
    for query in ("UNWIND range(1, 100000000) AS x RETURN collect(x)", "MATCH p = (a)-[*1..30]-(b) RETURN count(p)"):
        with pytest.raises(SluiceError):
            run_text(query, {}, 10, world.file, 3)
    assert run_text("RETURN 1", {}, 10, world.file, 5)["rows"] == [[1]]
    assert world.is_unchanged()


def test_the_size_of_a_result_is_bounded(world: World) -> None:
    told = run_text("UNWIND range(1, 100000) AS x RETURN x, $long", {"long": "a" * 1_000}, 100_000, world.file, 20)
    assert told["is_full"]
    assert len(told["rows"]) * 1_000 <= MAX_RESULT_BYTES
