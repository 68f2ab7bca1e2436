"""Generations of the graph on disk: whole or not there at all, and thrown away at any time."""

from __future__ import annotations

import os
import random
import shutil
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from sluice.contracts.errors import Corrupted, Unavailable
from sluice.contracts.graph.model import CitationRow, DocumentRow, GraphHit
from sluice.graph.arm import DAMAGED, NO_GRAPH, Arm
from sluice.graph.cypher.engine_file import FOLDER
from sluice.graph.generations.publish import (
    BESIDE,
    FILE,
    MANIFEST,
    POINTER,
    Generation,
    current,
    discard,
    lock_folder,
    open_generation,
    publish,
    verified,
)
from tests.support.graph_rows import File, rows

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def shop() -> list[DocumentRow]:
    return rows(
        File("shop/__init__.py").aliases("Cart", "shop.cart.Cart"),
        File("shop/cart.py").defines("Cart", 1, 20, "class").defines("Cart.add", 5, 9, "method"),
        File("shop/view.py").defines("show", 3, 9).refers("shop.Cart", 4).refers("?.add", 5),
        File("docs/cart.md").links("path:shop/cart.py", 7, text="the cart"),
    )


def put(folder: Path, documents: list[DocumentRow], version: int = 1) -> Generation:
    clock = count()
    cited = [CitationRow("shop/cart.py", "session-1", (5,)), CitationRow("gone.py", "session-1")]
    return publish(folder, documents, cited, version=version, now=NOW, seconds=lambda: float(next(clock)))


def lines_of(arm: Arm) -> list[tuple[str, int | None]]:
    found = arm.expand("", [GraphHit("shop/view.py", 3, 9, 1.0)])
    return [(candidate.document_id, candidate.line) for candidate in found.candidates]


def test_rows_in_any_order_give_the_same_bytes(tmp_path: Path) -> None:
    first = put(tmp_path / "one", shop())
    for seed in range(5):
        shuffled = shop()
        random.Random(seed).shuffle(shuffled)
        again = put(tmp_path / f"other{seed}", shuffled)
        assert again.sha256 == first.sha256
        assert (tmp_path / "one" / first.name / FILE).read_bytes() == (
            tmp_path / f"other{seed}" / again.name / FILE
        ).read_bytes()


def test_a_graph_of_nothing_can_be_published_and_abstains(tmp_path: Path) -> None:
    put(tmp_path, [])
    assert Arm(tmp_path).expand("what is `Cart.add`?", [GraphHit("a", 1, 2, 1.0)]).abstained


def test_two_generations_are_kept_and_the_last_is_current(tmp_path: Path) -> None:
    names = [put(tmp_path, shop(), version).name for version in range(1, 5)]
    assert sorted(entry.name for entry in tmp_path.glob("graph-*")) == names[-2:]
    generation = current(tmp_path)
    assert generation is not None
    assert (generation.name, generation.version) == (names[-1], 4)


def test_the_newest_generation_that_cypher_can_be_asked_of_is_kept_until_another_can(tmp_path: Path) -> None:
    def kept() -> list[str]:
        return sorted(entry.name for entry in tmp_path.glob("graph-*"))

    names = [put(tmp_path, shop(), 1).name]
    (tmp_path / names[0] / BESIDE).mkdir()
    names += [put(tmp_path, shop(), version).name for version in range(2, 5)]
    assert kept() == [names[0], *names[-2:]]
    (tmp_path / names[-1] / BESIDE).mkdir()
    names.append(put(tmp_path, shop(), 5).name)
    assert kept() == names[-2:]
    assert BESIDE == FOLDER


def test_what_a_killed_process_left_is_swept_and_not_current(tmp_path: Path) -> None:
    before = put(tmp_path, shop())
    half = tmp_path / ".writing-graph-000000000002"
    half.mkdir()
    (half / FILE).write_bytes(b"half")
    assert current(tmp_path) == before
    after = put(tmp_path, shop())
    assert not half.exists()
    assert after.name == "graph-000000000002"


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "missing", "manifest", "manifest missing"])
def test_a_damaged_generation_is_refused_thrown_away_and_folded_again(tmp_path: Path, damage: str) -> None:
    generation = put(tmp_path, shop())
    file, manifest = tmp_path / generation.name / FILE, tmp_path / generation.name / MANIFEST
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    match damage:
        case "flipped":
            file.write_bytes(content)
        case "cut":
            os.truncate(file, len(content) // 2)
        case "empty":
            os.truncate(file, 0)
        case "missing":
            file.unlink()
        case "manifest":
            manifest.write_text("{}")
        case _:
            manifest.unlink()
    with pytest.raises(Corrupted):
        open_generation(tmp_path, current(tmp_path) or generation)
    arm = Arm(tmp_path)
    assert arm.expand("", [GraphHit("shop/view.py", 3, 9, 1.0)]).abstained in (DAMAGED, NO_GRAPH)
    assert verified(tmp_path) is None
    assert not list(tmp_path.glob("graph-*"))
    put(tmp_path, shop())
    assert verified(tmp_path) is not None
    assert ("shop/cart.py", 1) in lines_of(arm)


def test_an_arm_reads_the_new_generation_as_soon_as_it_is_published(tmp_path: Path) -> None:
    arm = Arm(tmp_path)
    assert arm.expand("", []).abstained == NO_GRAPH
    put(tmp_path, shop()[:2])
    assert lines_of(arm) == []
    put(tmp_path, shop())
    assert ("shop/cart.py", 1) in lines_of(arm)


def test_an_arm_goes_on_when_the_graph_is_deleted_under_it_and_a_new_one_abstains(tmp_path: Path) -> None:
    put(tmp_path, shop())
    arm = Arm(tmp_path)
    before = lines_of(arm)
    shutil.rmtree(tmp_path)
    assert lines_of(arm) == before
    assert Arm(tmp_path).expand("", []).abstained == NO_GRAPH
    put(tmp_path, shop()[:2])
    assert lines_of(arm) == [], "the new graph bears the old one's name"


def test_one_process_publishes_at_a_time(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(Unavailable), lock_folder(tmp_path):
        pass
    with lock_folder(tmp_path):
        discard(tmp_path)
    assert current(tmp_path) is None
    assert not (tmp_path / POINTER).is_symlink()
