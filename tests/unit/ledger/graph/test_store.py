"""The rows of the graph say what the index said last, and their sums follow from what is there alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from sluice.contracts.event import Done, Next
from sluice.contracts.gate import GateRequested
from sluice.contracts.graph.model import DocumentRow, Edge
from sluice.contracts.index import AnswerDirected, AnswerReady, Citation
from sluice.ledger.graph.reading import EMPTY_SHA256, GraphRow, Totals, row_sha256, sum_sha256
from sluice.ledger.graph.store import Change, Graphs
from tests.support.evaluation_samples import chunk
from tests.support.graph.rows import defines, graph_row, links, refers
from tests.support.ledger_story import Story, answer

A = graph_row("a", defines("a", "a.f", 1, 3), refers("a", "b.g", 2, 7))
B = graph_row("b", defines("b", "b.g", 1, 2), links("b", "https://example.org/", "home"))


@pytest.fixture
def graph(story: Story) -> Graphs:
    return story.ledger.graph


def as_read(row: GraphRow) -> DocumentRow:
    known = row.identity
    return DocumentRow(row.document_id, known.path, known.url, known.title, row.edges)


def is_sum_of(graph: Graphs, *rows: GraphRow) -> bool:
    """Whether the totals are those of exactly these rows."""
    totals = graph.totals("docs")
    edges = sum(len(row.edges) for row in rows)
    wanted = (sum_sha256(map(row_sha256, rows)), len(rows), edges)
    return (totals.sha256, totals.documents, totals.edges) == wanted


def test_what_is_written_is_read_as_it_was_in_the_order_of_ids(graph: Graphs) -> None:
    written = graph.carry_out("docs", Change(4, replace=[B, A]))
    assert (written.replaced, written.totals.version, written.totals.as_of) == (2, 2, 4)
    assert list(graph.rows("docs")) == [as_read(A), as_read(B)]
    assert is_sum_of(graph, A, B)


def test_chosen_documents_come_with_all_that_is_known_of_them(graph: Graphs) -> None:
    graph.carry_out("docs", Change(4, replace=[A, B]))
    graph.carry_out("docs", Change(5, remove=["b"]))
    graph.carry_out("other", Change(9, replace=[A]))
    one, gone = graph.rows_of("docs", ["b", "never", "a", "a"])[::-1]
    assert (one.standing.document_id, one.standing.as_of, one.edges) == ("a", 4, A.edges)
    assert (one.standing.sha256, one.standing.identity) == (row_sha256(A), A.identity)
    assert one.updated_at > 0
    assert (gone.standing.is_tombstone, gone.standing.as_of, gone.edges) == (True, 5, ())


def test_a_corpus_without_a_graph_has_none(graph: Graphs) -> None:
    assert (list(graph.rows("docs")), graph.totals("docs")) == ([], Totals())
    graph.carry_out("other", Change(1, replace=[A]))
    assert list(graph.rows("docs")) == []


def test_equal_rows_change_nothing_but_are_known_as_of_the_later_offset(graph: Graphs) -> None:
    before = graph.carry_out("docs", Change(4, replace=[A])).totals
    again = graph.carry_out("docs", Change(9, replace=[A]))
    assert (again.replaced, again.unchanged, again.totals) == (0, 1, before._replace(as_of=9))
    assert graph.standing("docs", ["a"])["a"].as_of == 9
    late = graph.carry_out("docs", Change(7, replace=[graph_row("a", content="between")]))
    assert (late.outdated, late.totals) == (1, again.totals)


def test_a_changed_document_loses_its_edges_and_no_other_does(graph: Graphs) -> None:
    graph.carry_out("docs", Change(4, replace=[A, B]))
    changed = graph_row("a", refers("a", "b.h", 5), content="other")
    assert graph.carry_out("docs", Change(5, replace=[changed])).totals.version == 3
    assert list(graph.rows("docs")) == [as_read(changed), as_read(B)]
    assert is_sum_of(graph, changed, B)


def test_edited_and_reverted_the_graph_is_what_it_was(graph: Graphs) -> None:
    before = graph.carry_out("docs", Change(1, replace=[A, B])).totals
    graph.carry_out("docs", Change(2, replace=[graph_row("a", refers("a", "x.y", 1), content="edited")]))
    after = graph.carry_out("docs", Change(3, replace=[A])).totals
    assert (after.sha256, after.documents, after.edges) == (before.sha256, before.documents, before.edges)
    assert after.version == before.version + 2


def test_a_renamed_document_is_another_row_even_with_the_same_edges(graph: Graphs) -> None:
    graph.carry_out("docs", Change(1, replace=[A]))
    renamed = A._replace(identity=A.identity._replace(path="moved/a.py"))
    assert graph.carry_out("docs", Change(2, replace=[renamed])).replaced == 1
    assert is_sum_of(graph, renamed)


def test_what_left_the_index_leaves_a_tombstone_without_any_text(graph: Graphs) -> None:
    graph.carry_out("docs", Change(1, replace=[A, B]))
    gone = graph.carry_out("docs", Change(5, remove=["a", "never there"]))
    assert (gone.removed, gone.unchanged, gone.totals.version) == (1, 1, 3)
    stone = graph.standing("docs", ["a"])["a"]
    assert stone.is_tombstone
    assert (*stone.identity, stone.edges, stone.sha256) == ("", "", "", None, None, None, None, 0, "")
    assert list(graph.rows("docs")) == [as_read(B)]
    assert is_sum_of(graph, B)


@pytest.mark.parametrize("document", ["a", "never there"])
def test_a_late_writer_does_not_bring_back_what_was_removed(graph: Graphs, document: str) -> None:
    graph.carry_out("docs", Change(1, replace=[A]))
    graph.carry_out("docs", Change(5, remove=["a", "never there"]))
    late = graph.carry_out("docs", Change(4, replace=[A._replace(document_id=document)]))
    assert (late.outdated, late.totals.documents) == (1, 0)
    assert graph.carry_out("docs", Change(6, replace=[A._replace(document_id=document)])).totals.documents == 1


def test_a_late_removal_does_not_remove_what_came_after_it(graph: Graphs) -> None:
    graph.carry_out("docs", Change(5, replace=[A]))
    assert graph.carry_out("docs", Change(4, remove=["a"])).outdated == 1
    assert is_sum_of(graph, A)


def test_a_tombstone_goes_once_no_handler_of_its_time_can_be_left(story: Story, graph: Graphs) -> None:
    graph.carry_out("docs", Change(5, remove=["a"]))
    story.clock.passes(60.0)
    graph.carry_out("docs", Change(6, remove=["b"]))
    assert graph.drop_tombstones("docs", before=story.clock() - 30) == 1
    assert set(graph.standing("docs", ["a", "b"])) == {"b"}


def test_what_was_seen_unchanged_is_kept_unless_it_changed_meanwhile(graph: Graphs) -> None:
    graph.carry_out("docs", Change(1, replace=[A, B]))
    graph.carry_out("docs", Change(2, replace=[graph_row("b", content="other")]))
    kept = graph.carry_out("docs", Change(3, keep={"a": A.identity, "b": B.identity, "c": A.identity}))
    assert (kept.unchanged, kept.contested) == (1, ("b", "c"))
    assert graph.standing("docs", ["a"])["a"].as_of == 3


def test_another_parser_with_the_same_edges_is_noted_and_is_no_change(graph: Graphs) -> None:
    before = graph.carry_out("docs", Change(1, replace=[A])).totals
    upgraded = A._replace(identity=A.identity._replace(parser_version="2", embedding_version="other"))
    assert graph.carry_out("docs", Change(1, replace=[upgraded])).totals == before
    assert graph.standing("docs", ["a"])["a"].identity == upgraded.identity


def test_a_forgotten_parser_has_everything_read_anew_from_whatever_index_there_is(graph: Graphs) -> None:
    graph.carry_out("docs", Change(9, replace=[A, B]))
    graph.carry_out("docs", Change(9, remove=["b"]))
    graph.forget_versions("docs")
    assert graph.totals("docs").as_of == 0
    assert graph.standing("docs", ["a", "b"])["a"].identity.parser_version == ""
    assert graph.carry_out("docs", Change(3, replace=[A, B])).outdated == 0  # the index was restored from a copy
    assert is_sum_of(graph, A, B)


def test_a_reader_sees_one_moment_while_others_write(graph: Graphs) -> None:
    graph.carry_out("docs", Change(1, replace=[A, B]))
    with graph.snapshot("docs") as snapshot:
        rows = snapshot.rows()
        first = next(rows)
        graph.carry_out("docs", Change(2, replace=[graph_row("a", content="other"), graph_row("c")]))
        assert [first, *rows] == [as_read(A), as_read(B)]
        assert snapshot.totals.version == 2
    assert graph.totals("docs").version == 4


def test_many_documents_are_read_in_pages_with_all_their_edges(graph: Graphs) -> None:
    rows = [graph_row(f"d{n:04}", *(refers(f"d{n:04}", f"m.f{k}", k + 1) for k in range(n % 4))) for n in range(450)]
    graph.carry_out("docs", Change(1, replace=rows))
    graph.carry_out("docs", Change(2, remove=["d0199", "d0200"]))
    assert list(graph.rows("docs")) == [as_read(row) for row in rows if row.document_id not in ("d0199", "d0200")]


def test_text_that_no_database_takes_is_kept_as_it_can_be_and_hashed_so(graph: Graphs) -> None:
    odd = graph_row("o", links("o", "https://example.org/\x00", "half \ud800"), path="o\x00.md")
    graph.carry_out("docs", Change(1, replace=[odd]))
    [read] = graph.rows("docs")
    assert (read.path, read.edges[0].target.key, read.edges[0].detail) == (
        "o\ufffd.md",
        "https://example.org/\ufffd",
        "half ?",
    )
    again = GraphRow("o", odd.identity._replace(path=read.path), read.edges)
    assert row_sha256(again) == row_sha256(odd)


def test_in_whatever_order_documents_come_and_go_the_sums_are_those_of_what_is_there(graph: Graphs) -> None:
    choose = random.Random(5)
    there: dict[str, GraphRow] = {}
    for as_of in range(1, 200):
        document = choose.choice("abcdef")
        if choose.random() < 0.3:
            graph.carry_out("docs", Change(as_of, remove=[document]))
            there.pop(document, None)
        else:
            row = graph_row(document, *_some_edges(choose, document), content=str(choose.randrange(4)))
            graph.carry_out("docs", Change(as_of, replace=[row]))
            there[document] = row
    assert is_sum_of(graph, *there.values())
    assert list(graph.rows("docs")) == [as_read(there[name]) for name in sorted(there)]
    graph.carry_out("docs", Change(200, remove=list(there)))
    assert graph.totals("docs")[1:4] == (EMPTY_SHA256, 0, 0)


def test_citations_are_told_by_conversation_for_documents_that_are_there(story: Story, graph: Graphs) -> None:
    graph.carry_out("docs", Change(1, replace=[A]))
    for session in ("tuesday", "tuesday", None):
        request = GateRequested(query="what is a lease?", session_id=session)
        [asked] = story.begins(request, kind="gate", query=request.query)
        [directed] = story.handles(asked, Done((Next(AnswerDirected()),))).emitted
        story.handles(directed, Done((Next(_citing("a", "b")),)))
    with graph.snapshot("docs") as snapshot:
        cited = list(snapshot.citations())
    names = [row.conversation for row in cited if row.document_id == "a"]
    assert sorted(names) == sorted({"tuesday", asked.run_id})
    assert {row.document_id for row in cited} == {"a"}


# -- the words above


def _some_edges(choose: random.Random, document: str) -> Sequence[Edge]:
    return [refers(document, f"m.f{choose.randrange(5)}", n + 1) for n in range(choose.randrange(4))]


def _citing(*documents: str) -> AnswerReady:
    chunks = tuple(chunk(f"{name}-1", name) for name in documents)
    cited = tuple(
        Citation(number=number, chunk_id=one.chunk_id, source="a:1-2", match=1.0)
        for number, one in enumerate(chunks, start=1)
    )
    return AnswerReady(
        answer=answer().answer.model_copy(update={"chunks": chunks, "citations": cited}), duration_ms=1.0
    )
