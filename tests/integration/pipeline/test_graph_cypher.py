"""Each published graph is written for the Cypher engine too, and a question is answered from it."""

from __future__ import annotations

import pytest

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.errors import NotFound
from sluice.contracts.graph.api import CypherRequest, CypherResult
from sluice.graph.cypher.engine_file import FILE, newest_files
from sluice.graph.generations.publish import current
from sluice.workers.processes.watches.graph import FAILED_SECONDS, REST, CypherFiles
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.graphs import GraphDesk
from tests.support.graph.corpus import FILES
from tests.support.in_process import Instance, MakeInstance

STAGES = ("chunk", "embed", "index", "graph")


class Clock:
    """Seconds since 1970 that stand still until they are moved."""

    def __init__(self) -> None:
        self.now = 2e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    return make_instance()


def adds(instance: Instance, **files: str) -> None:
    documents = [{"file_path": path, "text": text} for path, text in files.items()]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
    instance.works(*STAGES)  # type: ignore[arg-type]


def ask(instance: Instance, query: str) -> CypherResult:
    desk = GraphDesk(instance.context)
    return desk.query(CypherRequest(query=query, corpus="docs"), OWN_MACHINE)


def test_what_is_indexed_can_be_asked_in_cypher_with_what_index_and_ledger_say_of_it(instance: Instance) -> None:
    adds(instance, **FILES)
    with pytest.raises(NotFound):
        ask(instance, "MATCH (d:Document) RETURN count(*)")
    CypherFiles(instance.context).look()
    query = (
        "MATCH (d:Document {path: 'shop/cart.py'}) "
        "RETURN d.language, size(d.content_hash), d.updated_at STARTS WITH '20', d.embedding_version IS NOT NULL"
    )
    assert ask(instance, query).rows == (("python", 64, True, True),)
    version = instance.context.ledger.graph.totals("docs").version
    assert GraphDesk(instance.context).status("docs", OWN_MACHINE).cypher_version == version


def test_a_new_generation_is_written_once_the_corpus_has_rested(instance: Instance) -> None:
    clock = Clock()
    watch = CypherFiles(instance.context, clock)
    adds(instance, **FILES)
    watch.look()
    adds(instance, **{"shop/new.py": "def brand_new() -> None: ...\n"})
    folder = instance.context.graphs.folder("docs")
    (first,) = newest_files(folder)
    clock.now = first.written_at + REST * first.seconds / 2
    watch.look()
    assert newest_files(folder) == [first]
    assert ask(instance, "MATCH (s:Symbol {name: 'brand_new'}) RETURN s").behind == 1
    clock.now = first.written_at + REST * first.seconds + 1
    watch.look()
    answer = ask(instance, "MATCH (s:Symbol {name: 'brand_new'}) RETURN count(*) > 0")
    assert (answer.rows, answer.behind) == (((True,),), 0)


def test_a_generation_that_cannot_be_written_rests_and_the_file_before_answers(instance: Instance) -> None:
    clock = Clock()
    watch = CypherFiles(instance.context, clock)
    adds(instance, **FILES)
    watch.look()
    adds(instance, **{"shop/new.py": "x = 1\n"})
    folder = instance.context.graphs.folder("docs")
    generation = current(folder)
    assert generation is not None
    content = (folder / generation.name / "graph.bin").read_bytes()
    (folder / generation.name / "graph.bin").write_bytes(b"damaged")
    watch.look()
    assert [found.generation for found in newest_files(folder)] != [generation.name]
    assert ask(instance, "MATCH (d:Document) RETURN count(*)").rows == ((len(FILES),),)
    (folder / generation.name / "graph.bin").write_bytes(content)
    watch.look()
    assert len(newest_files(folder)) == 1
    clock.now += FAILED_SECONDS
    watch.look()
    assert newest_files(folder)[0].generation == generation.name


def test_a_file_that_was_found_damaged_is_written_again(instance: Instance) -> None:
    watch = CypherFiles(instance.context)
    adds(instance, **FILES)
    watch.look()
    (newest,) = newest_files(instance.context.graphs.folder("docs"))
    (newest.folder / FILE).write_bytes(b"damaged")
    with pytest.raises(NotFound):
        ask(instance, "MATCH (d:Document) RETURN count(*)")
    watch.look()
    assert ask(instance, "MATCH (d:Document) RETURN count(*)").rows == ((len(FILES),),)


def test_after_another_model_the_file_is_written_again(instance: Instance) -> None:
    adds(instance, **FILES)
    watch = CypherFiles(instance.context)
    watch.look()
    instance.context.graphs.discard_cypher("docs")
    with pytest.raises(NotFound):
        ask(instance, "RETURN 1")
    watch.look()
    assert ask(instance, "MATCH (d:Document) RETURN count(*)").rows == ((len(FILES),),)
