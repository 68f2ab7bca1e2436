"""The graph that grew is the graph that is built anew, whatever happened in whatever order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.contracts.graph.model import EdgeType, symbol
from sluice.ledger.graph.store import Change, Graphs
from sluice.ledger.ledger import Ledger
from tests.support.graph.corpus import FILES, graph_document
from tests.support.graph.grown import Growing, edited, row_of

TEXTS = {path: edited(text) for path, text in FILES.items()}


@pytest.fixture
def graph(sqlite_template: Path, tmp_path: Path) -> Iterator[Graphs]:
    (tmp_path / "ledger.sqlite").write_bytes(sqlite_template.read_bytes())
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        yield ledger.graph


def test_200_random_sequences_of_events_end_in_the_graph_that_is_read_anew(graph: Graphs) -> None:
    for seed in range(200):
        growing = Growing(graph, f"corpus{seed}", TEXTS, seed)
        growing.happens(10)
        assert growing.is_as_rebuilt(), f"seed {seed}"


def test_one_changed_file_touches_only_its_own_edges(graph: Graphs) -> None:
    graph.carry_out("docs", Change(1, replace=[row_of(graph_document(path)) for path in FILES]))
    before = {row.document_id: row for row in graph.rows("docs")}
    changed = row_of(graph_document("shop/cart.py", f"# seen\n{FILES['shop/cart.py']}"))
    assert graph.carry_out("docs", Change(2, replace=[changed])).replaced == 1
    after = {row.document_id: row for row in graph.rows("docs")}
    assert [name for name in after if after[name] != before[name]] == [changed.document_id]


def test_a_moved_module_is_defined_under_its_new_name_and_no_more_under_the_old(graph: Graphs) -> None:
    old, new = graph_document("shop/cart.py"), graph_document("store/cart.py", FILES["shop/cart.py"])
    graph.carry_out("docs", Change(1, replace=[row_of(old)]))
    graph.carry_out("docs", Change(2, remove=[old.document_id]))
    graph.carry_out("docs", Change(2, replace=[row_of(new)]))
    [row] = graph.rows("docs")
    defined = {edge.source for edge in row.edges if edge.type is EdgeType.DEFINED_IN}
    assert symbol("python", "store.cart.total") in defined
    assert symbol("python", "shop.cart.total") not in defined


def test_the_same_file_at_two_paths_is_two_modules_with_edges_of_their_own(graph: Graphs) -> None:
    text = FILES["shop/cart.py"]
    rows = [row_of(graph_document(path, text)) for path in ("a/cart.py", "b/cart.py")]
    both = graph.carry_out("docs", Change(1, replace=rows)).totals
    assert both.edges == len(rows[0].edges) + len(rows[1].edges)
    assert graph.carry_out("docs", Change(2, remove=[rows[0].document_id])).totals.edges == len(rows[1].edges)
