"""The walk from what was found and from what a question names."""

from __future__ import annotations

import pytest

from sluice.contracts.graph.model import CitationRow, EdgeType, Expansion, GraphHit, NodeLabel, Origin
from sluice.graph.arm import UNASKED, expand
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.question import names_in
from tests.support.graph_rows import File, view_of


def shop() -> GraphView:
    return view_of(
        File("shop/cart.py").defines("Cart", 1, 40, "class").defines("Cart.add", 5, 9, "method"),
        File("shop/till.py").defines("pay", 1, 9).refers("shop.cart.Cart", 3),
        File("shop/view.py")
        .defines("show", 1, 9)
        .refers("shop.till.pay", 4)
        .defines("hide", 20, 29)
        .refers("far.away", 22),
        File("tests/test_till.py").defines("test_pay", 1, 9).refers("shop.till.pay", 5),
        File("docs/till.md")
        .refers("shop.till.pay", 7, origin=Origin.MENTION)
        .links("path:docs/cart.md", 8, text="cart"),
        File("docs/cart.md"),
    )


def places(found: Expansion) -> list[tuple[str, int | None]]:
    return [(candidate.document_id, candidate.line) for candidate in found.candidates]


def hit(document_id: str, start: int, end: int) -> list[GraphHit]:
    return [GraphHit(document_id, start, end, 1.0)]


def test_from_a_call_to_what_is_called() -> None:
    found = expand(shop(), "", hit("shop/view.py", 1, 9))
    assert places(found)[0] == ("shop/till.py", 1)
    assert str(found.candidates[0].path) == "shop/view.py REFERS_TO shop.till.pay DEFINED_IN shop/till.py"
    assert found.candidates[0].score == UNASKED


def test_from_what_is_called_to_its_callers_its_tests_and_the_pages_that_name_it() -> None:
    found = expand(shop(), "", hit("shop/till.py", 1, 9))
    assert {("shop/view.py", 4), ("tests/test_till.py", 5), ("docs/till.md", 7), ("shop/cart.py", 1)} <= set(
        places(found)
    )
    (page,) = [candidate for candidate in found.candidates if candidate.document_id == "docs/till.md"]
    assert [(step.edge, step.is_reverse, step.name, step.line) for step in page.path.steps] == [
        (EdgeType.DEFINED_IN, True, "shop.till.pay", None),
        (EdgeType.REFERS_TO, True, "docs/till.md", 7),
    ]


def test_from_a_page_to_the_page_that_it_links_to_and_back() -> None:
    assert ("docs/cart.md", None) in places(expand(shop(), "", hit("docs/till.md", 1, 9)))
    assert ("docs/till.md", 8) in places(expand(shop(), "", hit("docs/cart.md", 1, 9)))


def test_what_the_lines_of_a_hit_refer_to_comes_before_the_rest_of_its_document() -> None:
    view = view_of(
        File("a.py").defines("f", 1, 2),
        File("b.py").defines("g", 1, 2),
        File("c.py").refers("a.f", 3).refers("b.g", 50),
    )
    assert places(expand(view, "", hit("c.py", 40, 60)))[0] == ("b.py", 1)
    assert places(expand(view, "", hit("c.py", 1, 10)))[0] == ("a.py", 1)


@pytest.mark.parametrize("question", ["what does `pay` do?", "what does shop.till.pay do?", "where is till.pay?"])
def test_what_a_question_names_is_where_a_walk_begins(question: str) -> None:
    found = expand(shop(), question, [])
    assert places(found)[0] == ("shop/till.py", 1)
    assert found.candidates[0].path.start_label is NodeLabel.SYMBOL
    assert ("shop/view.py", 4) in places(found)


def test_a_path_in_a_question_is_its_document() -> None:
    assert places(expand(shop(), "what is in shop/till.py?", []))[0] == ("shop/till.py", None)


def test_words_of_english_name_nothing() -> None:
    assert expand(shop(), "how does a customer pay at the till, and hide the cart?", []).abstained


def test_a_name_with_too_many_definitions_is_told() -> None:
    view = view_of(*(File(f"m{n}.py").defines(f"C{n}.save", 1, 2, "method") for n in range(40)))
    assert "too many definitions" in expand(view, "what does `save` do?", []).abstained


def test_a_hit_that_the_graph_does_not_have_is_told() -> None:
    assert "does not have" in expand(shop(), "", hit("new.py", 1, 9)).abstained


def test_what_is_found_itself_is_not_what_the_graph_leads_to() -> None:
    found = expand(shop(), "", hit("shop/till.py", 1, 9))
    assert ("shop/till.py", None) not in places(found)


def test_a_call_on_an_unknown_receiver_leads_to_few_definers_and_says_of_how_many() -> None:
    few = view_of(
        *(File(f"m{n}.py").defines(f"C{n}.save", 1, 2, "method") for n in range(3)),
        File("x.py").refers("?.save", 5, origin=Origin.NAME),
    )
    found = expand(few, "", hit("x.py", 1, 9))
    assert {name for name, _ in places(found)} == {"m0.py", "m1.py", "m2.py"}
    assert found.candidates[0].path.steps[0].candidates == 3
    assert "(1 of 3)" in str(found.candidates[0].path)
    many = view_of(
        *(File(f"m{n}.py").defines(f"C{n}.save", 1, 2, "method") for n in range(40)),
        File("x.py").refers("?.save", 5, origin=Origin.NAME),
    )
    assert expand(many, "", hit("x.py", 1, 9)).abstained


def test_documents_that_one_conversation_cited_lead_to_each_other() -> None:
    cited = [CitationRow("docs/till.md", "s", (3,)), CitationRow("docs/cart.md", "s", (1,))]
    view = view_of(File("docs/till.md"), File("docs/cart.md"), citations=cited)
    found = expand(view, "", hit("docs/till.md", 1, 9))
    assert places(found) == [("docs/cart.md", 1)]
    assert str(found.candidates[0].path) == "docs/till.md CITED_BY s <-CITED_BY- docs/cart.md"


def test_a_walk_through_a_hub_is_bounded() -> None:
    users = [File(f"u{n}.py").refers("hub.f", 3) for n in range(2_000)]
    view = view_of(File("hub.py").defines("f", 1, 9), *users)
    found = expand(view, "", hit("hub.py", 1, 9))
    assert 0 < len(found.candidates) <= 32


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("how does a session expire?", []),
        ("what is Session.get in web/app.py?", ["Session.get", "web/app.py"]),
        ("where is read_file called, and parse()?", ["read_file", "parse"]),
        ("see https://example.com/a/b.html.", ["https://example.com/a/b.html"]),
        ("`std::vector` and CamelCase", ["std.vector", "std", "vector", "CamelCase"]),
        ("e.g. the end. Then more", []),
    ],
)
def test_names_in_a_question(question: str, names: list[str]) -> None:
    assert sorted(entry.text for entry in names_in(question)) == sorted(names)
