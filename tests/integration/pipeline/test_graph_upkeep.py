"""Whatever became of its events, the graph ends up where the index is; and whether it has is proven from the texts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import sluice.workers.wiring.graph_documents
from sluice.contracts.api import DocumentsRequest
from sluice.contracts.errors import Forbidden, InvalidInput, NotFound, PolicyRefused
from sluice.contracts.graph.model import Edge
from sluice.graph.extract import extract
from sluice.graph.generations.publish import current, verified
from sluice.index.folder import CorpusLayout
from sluice.index.generations.publish import read_current_name, rollback
from sluice.ledger.graph.store import Change
from sluice.workers.processes.watches.graph import GraphWatch
from sluice.workers.service.callers import OWN_MACHINE, Caller
from sluice.workers.service.graphs import GraphDesk
from sluice.workers.wiring.graphs import REST
from tests.support.graph.corpus import FILES
from tests.support.graph.rows import graph_row
from tests.support.in_process import Instance, MakeInstance
from tests.support.ledger_story import NOON, Clock
from tests.support.waiting import until

STAGES = ("chunk", "embed", "index")
CORPUS = "docs"


class Followed:
    """An instance whose watch looks when a test says so."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.graph = instance.context.ledger.graph
        self.upkeep = GraphDesk(instance.context)
        self.clock = Clock(NOON)
        self.watch = GraphWatch(instance.context, lambda: datetime.fromtimestamp(self.clock(), UTC))

    def indexes(self, *paths: str, **files: str) -> str:
        documents = [{"file_path": path, "text": FILES[path]} for path in paths]
        documents += [{"file_path": f"{path}.py", "text": text} for path, text in files.items()]
        request = DocumentsRequest.model_validate({"corpus": CORPUS, "documents": documents})
        run_id = self.instance.service.add_documents(request).run_id
        self.instance.works(*STAGES)
        return run_id

    def looks(self) -> int:
        """The runs that a look began."""
        before = len(self.instance.context.ledger.runs(100, kind="graph"))
        self.watch.look()
        return len(self.instance.context.ledger.runs(100, kind="graph")) - before

    def is_proven(self) -> bool:
        proof = self.upkeep.prove(CORPUS, OWN_MACHINE)
        assert proof.is_equal == (not proof.differing), proof
        return proof.is_equal

    def rests(self) -> None:
        """Let the time pass that a folding keeps from the one before: events that come sooner are put off."""
        standing = verified(self.instance.context.graphs.folder(CORPUS))
        assert standing is not None
        until(lambda: (datetime.now(UTC) - standing.published_at).total_seconds() > REST * standing.seconds)

    def is_published(self) -> bool:
        generation = current(self.instance.context.graphs.folder(CORPUS))
        return generation is not None and generation.version == self.graph.totals(CORPUS).version


@pytest.fixture
def followed(make_instance: MakeInstance) -> Followed:
    return Followed(make_instance())


def test_a_graph_that_has_everything_needs_no_run(followed: Followed) -> None:
    followed.indexes(*FILES)
    assert followed.looks() == 0, "its event is open"
    followed.instance.works("graph")
    assert followed.looks() == 0
    assert followed.is_proven()


def test_a_cancelled_run_loses_no_update_of_the_graph(followed: Followed) -> None:
    run_id = followed.indexes(*FILES)
    assert followed.instance.service.cancel(run_id)
    followed.instance.works("graph")
    assert not followed.is_proven()
    assert followed.looks() == 1
    assert followed.looks() == 0, "it is under way"
    followed.instance.works("graph")
    assert followed.is_proven()
    assert followed.is_published()
    [run] = followed.instance.context.ledger.runs(kind="graph")
    assert run.status == "finished"


def test_the_graph_switched_on_is_caught_up_with(make_instance: MakeInstance) -> None:
    off = Followed(make_instance(graph={"enabled": False}))
    off.indexes(*FILES)
    assert off.looks() == 0
    on = Followed(make_instance())
    assert on.looks() == 1
    on.instance.works("graph")
    assert on.is_proven()


def test_what_cannot_be_brought_up_is_tried_once_an_hour(followed: Followed) -> None:
    cancel = followed.instance.service.cancel
    cancel(followed.indexes(*FILES))
    assert followed.looks() == 1
    [run] = followed.instance.context.ledger.runs(kind="graph")
    cancel(run.run_id)
    assert followed.looks() == 0
    followed.clock.passes(3_600.0)
    assert followed.looks() == 1


def test_another_parser_has_every_document_read_anew(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    followed.indexes(*FILES)
    followed.instance.works("graph")
    before = followed.graph.totals(CORPUS)

    def fewer(document: extract.GraphDocument) -> tuple[Edge, ...]:
        return extract.extract_edges(document)[:1]

    monkeypatch.setattr(sluice.workers.wiring.graph_documents, "extract_edges", fewer)
    assert not followed.is_proven()
    monkeypatch.setattr(sluice.workers.wiring.graph_documents, "parser_version", lambda: "another")
    followed.watch = GraphWatch(followed.instance.context, lambda: datetime.fromtimestamp(NOON, UTC))  # a new process
    assert followed.looks() == 1
    followed.instance.works("graph")
    assert followed.is_proven()
    assert followed.graph.totals(CORPUS).edges < before.edges


def test_an_index_that_was_rolled_back_takes_its_graph_along(followed: Followed) -> None:
    followed.indexes("docs/cart.md")
    followed.instance.works("graph")
    before = followed.graph.totals(CORPUS)
    layout = CorpusLayout(followed.instance.context.settings.index_root, CORPUS)
    former = read_current_name(layout)
    assert former is not None
    followed.indexes("docs/checkout.md")
    followed.instance.works("graph")
    assert followed.graph.totals(CORPUS).sha256 != before.sha256
    rollback(layout.folder.parent, CORPUS, former)
    assert followed.looks() == 1
    followed.instance.works("graph")
    assert followed.graph.totals(CORPUS).sha256 == before.sha256
    assert followed.is_proven()


def test_generations_that_were_deleted_are_made_again(followed: Followed) -> None:
    followed.indexes(*FILES)
    followed.instance.works("graph")
    assert followed.looks() == 0
    (followed.instance.context.graphs.folder(CORPUS) / "CURRENT").unlink()
    assert followed.looks() == 1
    followed.instance.works("graph")
    assert followed.is_published()


def test_rows_that_no_text_states_are_found_by_the_proof_and_put_right_by_a_rebuilding(followed: Followed) -> None:
    followed.indexes(*FILES)
    followed.instance.works("graph")
    as_of = followed.graph.totals(CORPUS).as_of
    followed.graph.carry_out(CORPUS, Change(as_of, replace=[graph_row("ghost")]))
    proof = followed.upkeep.prove(CORPUS, OWN_MACHINE)
    assert (proof.is_equal, proof.differing) == (False, ("ghost",))
    followed.rests()
    followed.upkeep.rebuild(CORPUS, OWN_MACHINE)
    followed.instance.works("graph")
    assert followed.is_proven()
    status = followed.upkeep.status(CORPUS, OWN_MACHINE)
    assert (status.documents, status.behind, status.problem) == (len(FILES), 0, None)
    assert status.graph_sha256 == followed.upkeep.prove(CORPUS, OWN_MACHINE).rebuilt_sha256


def test_two_corpora_with_a_module_of_one_name_have_graphs_of_their_own(followed: Followed) -> None:
    followed.indexes(**{"shop/cart": "def total() -> int:\n    return 1\n"})
    documents = [{"file_path": "shop/cart.py", "text": "def total() -> int:\n    return 2\n"}]
    told = {"corpus": "other", "create_corpus": True, "documents": documents}
    other = DocumentsRequest.model_validate(told)
    followed.instance.service.add_documents(other)
    followed.instance.works(*STAGES, "graph")
    assert followed.graph.totals(CORPUS).documents == followed.graph.totals("other").documents == 1
    assert followed.graph.totals(CORPUS).sha256 != followed.graph.totals("other").sha256
    assert followed.is_proven()


def test_what_may_not_be_asked_is_refused_with_a_reason(followed: Followed, make_instance: MakeInstance) -> None:
    with pytest.raises(NotFound):
        followed.upkeep.status("never", OWN_MACHINE)
    with pytest.raises(InvalidInput, match="an agent's memory"):
        followed.upkeep.status("0123abcd-0123abcd", OWN_MACHINE)
    with pytest.raises(Forbidden):
        followed.upkeep.prove(CORPUS, Caller("key", "reader", frozenset({"other"})))
    off = Followed(make_instance(graph={"enabled": False}))
    off.indexes("docs/cart.md")
    with pytest.raises(PolicyRefused, match="the graph is off"):
        off.upkeep.rebuild(CORPUS, OWN_MACHINE)
