"""Answers by the graph: from what was found to what it refers to, told by the path, and never without an answer."""

from __future__ import annotations

import json
import shutil
import threading
from typing import Any

import pytest

from sluice.contracts.api import DocumentsRequest, GateRequest
from sluice.contracts.graph.model import GraphPath
from sluice.contracts.index import Answer
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query, Strategy
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.learning.control import FlagDesk
from sluice.workers.steps.retrieve import Retriever
from sluice.workers.wiring.inject import assemble
from tests.support.graph.corpus import FILES
from tests.support.in_process import Instance, MakeInstance

QUESTION = "What does the test of paying for a cart at the checkout exercise?"
FAR = {
    f"notes/{number}.md": f"# Note {number}\n\nPaying at checkout number {number} is tested.\n" for number in range(40)
}
"""Texts that have the question's words, so that what the test refers to is not found by words and vectors."""


def filled(make_instance: MakeInstance, **sections: Any) -> Instance:
    """An instance with the corpus `docs`, whose graph is published."""
    instance = make_instance(**sections)
    documents = [{"file_path": path, "text": text} for path, text in (FILES | FAR).items()]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
    instance.works("chunk", "embed", "index", "graph")
    return instance


def asks(instance: Instance, strategy: Strategy = Strategy.HYBRID_GRAPH) -> dict[str, Any]:
    """The result of a direct query."""
    context = instance.context
    query = Query(query=QUESTION, corpus="docs", strategy=strategy, top_k=10)
    reply = assemble(Retriever, context).read(query, context.tokenizer, context.flags.switched_off(query.query))
    found: dict[str, Any] = json.loads(reply[1:])
    return found


def answer(instance: Instance, **fields: Any) -> tuple[Answer, list[tuple[str, str]]]:
    """A run's answer by the profile code, and its gaps."""
    asked = GateRequest(query=QUESTION, corpus="docs", plan=Plan.RETRIEVE, profile="code", confidence_floor=0, **fields)
    run_id = instance.service.ask(asked).run_id
    instance.works("query", "gate", "query")
    view = instance.context.ledger.run(run_id)
    assert view.answer is not None
    return view.answer, [(gap.reason, gap.detail) for gap in instance.gaps(run_id)]


def test_what_a_found_test_refers_to_is_found_with_its_path_and_cited_by_it(make_instance: MakeInstance) -> None:
    instance = filled(make_instance)
    found = asks(instance)
    assert found["metadata"]["strategy"] == "hybrid_graph"
    assert found["metadata"]["graph"]["candidates"] > 0
    led = {chunk["file_path"]: chunk for chunk in found["chunks"] if "graph_path" in chunk}
    path = str(GraphPath.model_validate(led["shop/checkout.py"]["graph_path"]))
    assert path.endswith(" shop/checkout.py")
    assert 0 < led["shop/checkout.py"]["graph_score"] <= 1
    assert all("graph_path" not in chunk for chunk in asks(instance, Strategy.HYBRID)["chunks"])
    given, gaps = answer(instance, prompt="rag")
    cited = {citation.source.partition(":")[0]: citation.graph_path for citation in given.citations}
    assert cited["shop/checkout.py"] == path
    assert gaps == []


def test_a_profile_without_the_graph_and_an_instance_that_holds_it_off_ask_for_nothing(
    make_instance: MakeInstance,
) -> None:
    instance = filled(make_instance, graph={"in_retrieval": False})
    found = asks(instance)
    assert found["metadata"]["graph"]["abstained"] == "graph.in_retrieval is false"
    assert [one["chunk_id"] for one in found["chunks"]] == [
        one["chunk_id"] for one in asks(instance, Strategy.HYBRID)["chunks"]
    ]
    given, gaps = answer(instance)
    assert all(citation.graph_path is None for citation in given.citations)
    assert gaps == []


@pytest.mark.parametrize("harm", ["away", "damaged"])
def test_a_graph_that_is_away_or_damaged_costs_no_answer_and_the_run_says_so(
    make_instance: MakeInstance, harm: str
) -> None:
    instance = filled(make_instance)
    root = instance.context.settings.graph_root
    if harm == "away":
        shutil.rmtree(root)
    else:
        for file in root.rglob("graph.bin"):
            file.write_bytes(file.read_bytes()[:100])
    before = [chunk["chunk_id"] for chunk in asks(instance, Strategy.HYBRID)["chunks"]]
    found = asks(instance)
    assert [chunk["chunk_id"] for chunk in found["chunks"]] == before
    assert found["metadata"]["graph"]["abstained"]
    given, gaps = answer(instance)
    assert given.citations
    assert gaps == [("graph_not_searched", found["metadata"]["graph"]["abstained"])]


def test_the_flag_off_is_told_in_the_run(make_instance: MakeInstance) -> None:
    instance = filled(make_instance)
    FlagDesk(instance.context).change("graph", "off", OWN_MACHINE, "a test")
    instance.context.flags.states()
    given, gaps = answer(instance)
    assert all(citation.graph_path is None for citation in given.citations)
    assert gaps == [("graph_not_searched", "the flag graph is off")]


def test_the_files_of_the_graph_are_deleted_while_questions_are_asked_and_none_fails(
    make_instance: MakeInstance,
) -> None:
    instance = filled(make_instance)
    root = instance.context.settings.graph_root
    kept = root.with_name("kept")
    shutil.copytree(root, kept, symlinks=True)
    is_over = threading.Event()
    counts, failures = [0], []

    def ask_on() -> None:
        while not is_over.is_set():
            try:
                assert asks(instance)["chunks"]
                counts[0] += 1
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=ask_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    rounds = 0
    while rounds < 10 or (counts[0] < 10 and not failures):
        shutil.rmtree(root)
        shutil.copytree(kept, root, symlinks=True)
        rounds += 1
    is_over.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert counts[0] >= 10
