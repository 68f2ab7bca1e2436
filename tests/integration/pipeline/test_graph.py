"""What is indexed is read into the graph afterwards: no run waits for it, and it says what the index says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.document import document_id_for
from sluice.contracts.graph.model import DocumentRow, EdgeType, Node, NodeLabel, Origin, document_node
from sluice.contracts.index import GraphDirected, GraphPublished
from sluice.contracts.ingest import DocumentsRemoved
from sluice.contracts.operations.forget import Selection
from sluice.graph.generations.publish import Generation, current, verified
from sluice.ledger.graph.reading import Totals
from sluice.ledger.graph.store import Change
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.wiring.graphs import BEHIND_SECONDS, REST, publish_rows
from tests.support.graph.corpus import FILES
from tests.support.graph.rows import graph_row
from tests.support.in_process import Instance, MakeInstance
from tests.support.ledger_story import Clock

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


def test_what_was_read_is_published_as_one_generation_and_told(instance: Instance) -> None:
    run_id = submits(instance, FILES)
    instance.works("graph")
    published = current(folder(instance))
    assert published is not None
    assert (published.version, published.documents) == (len(FILES), len(FILES))
    [told] = instance.context.ledger.events_of_kind(run_id, GraphPublished.kind)
    assert told.body_as(GraphPublished).generation == published.name
    view, _ = instance.context.graphs.arm("docs").view()
    assert view is not None
    assert view.documents == len(FILES)


def test_while_more_is_to_be_read_the_last_event_publishes_for_all(instance: Instance) -> None:
    run_ids = [submits(instance, {path: text}) for path, text in FILES.items()]
    instance.works("graph")
    told = [instance.context.ledger.events_of_kind(run_id, GraphPublished.kind) for run_id in run_ids]
    covers = [event.body_as(GraphPublished).covers for events in told for event in events]
    assert covers[0] == 1, "the first is published at once: until then there is no graph at all"
    assert len(covers) <= 2
    assert all(run.open_events == 0 or not covers[1:] for run in map(instance.context.ledger.run, run_ids))


def test_a_graph_that_was_published_a_moment_ago_is_not_published_again_before_a_rest(
    instance: Instance, tmp_path: Path
) -> None:
    graph, time = instance.context.ledger.graph, Clock()
    graph.carry_out("docs", Change(1, replace=[graph_row("a")]))

    def publish(*, more_to_come: bool = False) -> Generation | float | None:
        now = datetime.fromtimestamp(time(), UTC)
        return publish_rows("docs", tmp_path / "g", graph, more_to_come=more_to_come, now=lambda: now, seconds=Ticks())

    assert isinstance(publish(), Generation)
    assert publish() is None, "all of it is published"
    graph.carry_out("docs", Change(2, replace=[graph_row("b")]))
    assert publish() == REST * 2.0
    assert publish(more_to_come=True) is None
    time.passes(REST * 2.0)
    assert publish(more_to_come=True) is None, "another will"
    time.passes(BEHIND_SECONDS)
    assert isinstance(publish(more_to_come=True), Generation), "it is a minute behind"


def test_a_damaged_generation_is_thrown_away_and_made_again(instance: Instance) -> None:
    submits(instance, FILES)
    instance.works("graph")
    published = current(folder(instance))
    assert published is not None
    (folder(instance) / published.name / "graph.bin").write_bytes(b"garbage")
    instance.begins(GraphDirected(document_ids=(), journal_offset=0))
    instance.works("graph")
    anew = verified(folder(instance))
    assert anew is not None
    assert anew.sha256 == published.sha256


def test_what_is_forgotten_leaves_neither_a_row_nor_a_published_generation_at_once(instance: Instance) -> None:
    submits(instance, FILES)
    instance.works("graph")
    gone = rows(instance)["shop/base.py"].document_id
    instance.begins(DocumentsRemoved(document_ids=(gone,), erase=True))
    instance.works("index")
    assert "shop/base.py" not in rows(instance)
    stone = instance.context.ledger.graph.standing("docs", [gone])[gone]
    assert (stone.is_tombstone, stone.identity.path, stone.identity.title) == (True, None, None)
    assert current(folder(instance)) is None
    assert not list(folder(instance).glob("graph-*"))
    instance.works("graph")
    published = current(folder(instance))
    assert published is not None
    assert published.documents == len(FILES) - 1
    files = [file.read_bytes() for file in folder(instance).rglob("*") if file.is_file()]
    assert not any(b"shop/base.py" in content or gone.encode() in content for content in files)


def test_the_proof_of_forgetting_looks_into_rows_and_every_generation_on_disk(instance: Instance) -> None:
    submits(instance, FILES)
    instance.works("graph")
    gone = rows(instance)["shop/base.py"].document_id
    selection = Selection(document_id=gone)

    def places() -> set[str]:
        proof = ForgetDesk(instance.context).prove("docs", selection, OWN_MACHINE)
        return {trace.place for trace in proof.traces if trace.found}

    published = current(folder(instance))
    assert published is not None
    assert {"graph rows", f"graph generation {published.name}"} <= places()
    instance.begins(DocumentsRemoved(document_ids=(gone,), erase=True))
    instance.works("index")
    assert not [place for place in places() if place.startswith("graph")]
    instance.works("graph")
    assert not [place for place in places() if place.startswith("graph")]


# -- the words above


def folder(instance: Instance) -> Path:
    return instance.context.graphs.folder("docs")


class Ticks:
    """A clock on which whatever is measured takes two seconds."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 2.0
        return self._now
