"""The file of the engine holds what the generation holds, is written in a child, and is swapped in whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ladybug
import pytest
from filelock import FileLock

from sluice.contracts.errors import TimedOut, Unavailable
from sluice.contracts.graph.api import CypherRequest
from sluice.contracts.graph.model import EdgeType, NodeLabel
from sluice.graph.cypher.build import LOCK, build_in_child
from sluice.graph.cypher.engine_file import FILE, EdgeRow, NodeRow, file_of, newest_files, write_file
from sluice.graph.cypher.guard import guard
from sluice.graph.cypher.run import run_cypher
from tests.support.graph.cypher_file import FACTS, publish_shop, shop_with_cypher


def rows_of(folder: Path, query: str, **parameters: str) -> list[list[object]]:
    result = run_cypher(CypherRequest(query=query, parameters=parameters, limit=1_000), folder)
    return [list(row) for row in result.rows]


def plan_of(file: Path, query: str, **parameters: str) -> str:
    statement = guard(query, parameters, "default", 10)
    database = ladybug.Database(file, read_only=True, buffer_pool_size=64 << 20, max_num_threads=1, max_db_size=1 << 30)
    result = ladybug.Connection(database).execute("EXPLAIN " + statement.text, statement.parameters)
    assert not isinstance(result, list)
    plan = str(result.get_next())
    database.close()
    return plan


def test_a_child_writes_what_the_generation_holds(tmp_path: Path) -> None:
    assert build_in_child(tmp_path, 60) is None
    publish_shop(tmp_path)
    written = build_in_child(tmp_path, 60, corpus="shop", facts=FACTS)
    assert written is not None
    assert (written.version, written.generation) == (3, "graph-000000000001")
    assert build_in_child(tmp_path, 60) == written
    counted = dict(rows_of_corpus(tmp_path, "MATCH (n) RETURN labels(n) AS l, count(*)", "shop"))
    assert counted == {"Document": 6, "Symbol": 8, "URL": 3, "Tool": 1, "Conversation": 1}
    edges = rows_of_corpus(tmp_path, "MATCH ()-[r]->() RETURN type(r), count(*)", "shop")
    assert sum(count for _, count in edges) == written.edges
    assert {kind for kind, _ in edges} == set(EdgeType) - {EdgeType.ALIAS_OF, EdgeType.HAS_TYPE}
    assert rows_of(tmp_path, "MATCH (n) RETURN count(n)") == [[0]]


def rows_of_corpus(folder: Path, query: str, corpus: str) -> list[tuple[str, int]]:
    result = run_cypher(CypherRequest(query=query, corpus=corpus), folder)
    return [(name[0] if isinstance(name, list) else name, count) for name, count in result.rows]


def test_the_file_lies_alone_in_its_folder_with_nothing_to_be_replayed(tmp_path: Path) -> None:
    shop_with_cypher(tmp_path)
    (found,) = newest_files(tmp_path)
    assert [entry.name for entry in found.folder.iterdir()] == [FILE]
    assert sorted(entry.name for entry in found.folder.parent.iterdir()) == [
        "cypher", "cypher.json", "graph.bin", "manifest.json"
    ]  # fmt: skip


def test_names_with_quotes_and_lines_survive(tmp_path: Path) -> None:
    odd = "a \"quoted\" 'name', with\\ backslash and [list] é漢"
    nodes = [
        NodeRow(NodeLabel.DOCUMENT, ("d", "default", odd, "two\nlines\0", "", None, None, None, None)),
        NodeRow(NodeLabel.DOCUMENT, ("d", "default", "twice", None, None, None, None, None, None)),
        NodeRow(NodeLabel.URL, (odd, "default", "[1,2]")),
    ]
    edges = [
        EdgeRow(EdgeType.LINKS_TO, NodeLabel.DOCUMENT, "d", NodeLabel.URL, odd, ("link", None, (), 1, odd)),
        EdgeRow(EdgeType.LINKS_TO, NodeLabel.DOCUMENT, "d", NodeLabel.URL, "absent", ("link", 1, (1,), 1, "")),
        EdgeRow(EdgeType.REFERS_TO, NodeLabel.DOCUMENT, "d", NodeLabel.DOCUMENT, "d", ("name", 2, (2, 3), 1, "")),
    ]
    generation = tmp_path / 'it\'s "odd"' / "graph-000000000001"
    generation.mkdir(parents=True)
    written = write_file(generation, nodes, edges, 1)
    assert (written.nodes, written.edges) == (2, 2)
    query = "MATCH (d:Document)-[r:LINKS_TO]->(u {id: $odd}) RETURN d.path, d.title, r.detail, r.lines, u.url, r.line"
    found = rows_of(generation.parent, query, odd=odd)
    assert found == [[odd, "two lines", odd, [], "[1,2]", None]]
    assert rows_of(generation.parent, "MATCH (a)-[r:REFERS_TO]->(b:Document) RETURN r.lines") == [[[2, 3]]]


def test_a_question_by_id_looks_it_up_by_the_primary_key(tmp_path: Path) -> None:
    shop_with_cypher(tmp_path)
    file = newest_files(tmp_path)[0].folder / FILE
    one = plan_of(file, "MATCH (d:Document {id: $id})-[:REFERS_TO]->(s) RETURN s.id", id="test")
    assert "PRIMARY_KEY" in one
    assert "PRIMARY_KEY" in plan_of(file, "MATCH (s:Symbol) WHERE s.id = 'x' RETURN s.name")


def test_a_child_that_takes_too_long_is_killed_and_the_next_one_writes(tmp_path: Path) -> None:
    publish_shop(tmp_path)
    with pytest.raises(TimedOut):
        build_in_child(tmp_path, 0.01)
    assert newest_files(tmp_path) == []
    assert build_in_child(tmp_path, 60) is not None


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    publish_shop(tmp_path)
    with FileLock(tmp_path / LOCK), pytest.raises(Unavailable, match="another process"):
        build_in_child(tmp_path, 60)


def test_a_damaged_generation_fails_the_child_alone(tmp_path: Path) -> None:
    publish_shop(tmp_path)
    (tmp_path / "graph-000000000001" / "graph.bin").write_bytes(b"damaged")
    with pytest.raises(Unavailable, match="hash"):
        build_in_child(tmp_path, 60)


def test_a_build_that_is_killed_anywhere_leaves_no_file_that_counts(tmp_path: Path) -> None:
    """At each step of the writing the process dies; then a question finds nothing, and the next build everything."""
    publish_shop(tmp_path)
    steps = ("connection.execute", "rename", "write_durably")
    for number in range(len(steps)):
        program = _DYING.format(folder=str(tmp_path), step=number)
        done = subprocess.run([sys.executable, "-c", program], timeout=60, check=False, env={"PYTHONPATH": "."})
        assert done.returncode == 9
        assert newest_files(tmp_path) == []
    assert build_in_child(tmp_path, 60) is not None
    assert rows_of(tmp_path, "MATCH (d:Document) RETURN count(d)") == [[6]]


_DYING = """
import os
from pathlib import Path
import sluice.graph.cypher.engine_file as engine_file
from sluice.graph.cypher.build import build
die = lambda *_: os._exit(9)
if {step} == 0:
    engine_file._copy = die
elif {step} == 1:
    os.rename = die
    Path.rename = die
else:
    engine_file.write_durably = die
build(Path({folder!r}), "default", {{}})
"""


def test_a_manifest_of_another_schema_does_not_count(tmp_path: Path) -> None:
    shop_with_cypher(tmp_path)
    generation = newest_files(tmp_path)[0].folder.parent
    manifest = json.loads((generation / "cypher.json").read_text())
    (generation / "cypher.json").write_text(json.dumps({**manifest, "schema_version": 0}))
    assert file_of(generation) is None
    assert build_in_child(tmp_path, 60) is not None
