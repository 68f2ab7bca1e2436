"""What is indexed is read into the graph afterwards: no run waits for it, and it says what the index says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from contracts.api import DocumentsRequest
from contracts.document import document_id_for
from contracts.graph.events import GraphDirected
from contracts.graph.model import EdgeType, Node, NodeLabel, Origin, document_node
from contracts.graph.rows import DocumentRow
from contracts.ingest import DocumentsRemoved
from ledger.graph.rows import Totals
from tests.support.graph.corpus import FILES
from tests.support.in_process import Instance, MakeInstance

STAGES = ("chunk", "embed", "index")


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    return make_instance()


def submits(instance: Instance, files: Mapping[str, str]) -> str:
    """The run that brings these files into the index."""
    documents = [{"file_path": path, "text": text} for path, text in files.items()]
    request = DocumentsRequest.model_validate({"corpus": "docs", "documents": documents})
    run_id = instance.service.add_documents(request).run_id
    instance.works(*STAGES)
    return run_id


def rows(instance: Instance) -> dict[str, DocumentRow]:
    """What the graph has, by path."""
    return {str(row.path): row for row in instance.context.ledger.graph.rows("docs")}


def totals(instance: Instance) -> Totals:
    return instance.context.ledger.graph.totals("docs")


def test_what_is_indexed_is_read_into_the_graph_and_no_run_waits_for_it(instance: Instance) -> None:
    run_id = submits(instance, FILES)
    assert instance.context.ledger.run(run_id).status == "finished"
    assert rows(instance) == {}
    instance.works("graph")
    found = rows(instance)
    assert set(found) == set(FILES)
    guide = found["docs/checkout.md"]
    links = [edge for edge in guide.edges if edge.type is EdgeType.LINKS_TO and edge.origin is Origin.LINK]
    assert Node(NodeLabel.URL, "path:docs/cart.md") in {edge.target for edge in links}
    assert {edge.source for edge in links} == {document_node(guide.document_id)}


def test_a_second_run_of_the_same_event_changes_nothing(instance: Instance) -> None:
    submits(instance, FILES)
    instance.works("graph")
    before = totals(instance)
    ids = tuple(row.document_id for row in rows(instance).values())
    instance.begins(GraphDirected(document_ids=ids, journal_offset=1))
    instance.works("graph")
    assert totals(instance) == before


def test_one_changed_file_changes_its_own_edges_and_those_of_no_other(instance: Instance) -> None:
    submits(instance, FILES)
    instance.works("graph")
    before = rows(instance)
    submits(instance, {"docs/cart.md": FILES["docs/cart.md"] + "\nSee the [report](../report.txt).\n"})
    instance.works("graph")
    after = rows(instance)
    assert {path for path in FILES if after[path] != before[path]} == {"docs/cart.md"}
    assert totals(instance).version == len(FILES) + 1


def test_what_is_edited_and_reverted_before_it_was_read_is_no_change(instance: Instance) -> None:
    submits(instance, FILES)
    instance.works("graph")
    before = totals(instance)
    submits(instance, {"shop/cart.py": "LIMIT = 1\n"})
    submits(instance, {"shop/cart.py": FILES["shop/cart.py"]})
    instance.works("graph")
    assert totals(instance)._replace(as_of=before.as_of) == before


def test_what_leaves_the_index_leaves_the_graph(instance: Instance) -> None:
    submits(instance, FILES)
    instance.works("graph")
    gone = rows(instance)["shop/base.py"].document_id
    instance.begins(DocumentsRemoved(document_ids=(gone,)))
    instance.works("index", "graph")
    assert set(rows(instance)) == set(FILES) - {"shop/base.py"}


def test_the_graph_off_gets_no_work(make_instance: MakeInstance) -> None:
    instance = make_instance(graph={"enabled": False})
    submits(instance, {"a.py": "x = 1\n"})
    instance.works("graph")
    assert totals(instance) == Totals()


def test_many_documents_are_read_by_several_events_of_a_thousand(instance: Instance) -> None:
    ids = tuple(document_id_for(str(number)) for number in range(2_500))
    instance.begins(DocumentsRemoved(document_ids=ids))
    instance.works("index")
    [run] = instance.context.ledger.runs(1)
    directed = instance.context.ledger.events_of_kind(run.run_id, GraphDirected.kind)
    assert [len(event.body_as(GraphDirected).document_ids) for event in directed] == [1_000, 1_000, 500]
