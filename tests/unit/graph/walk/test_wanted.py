"""What a question says about which way it asks."""

from __future__ import annotations

import pytest

from sluice.contracts.graph.model import Expansion, GraphHit, Origin
from sluice.graph.arm import expand
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.nodes import Kind
from sluice.graph.walk.question import Wanted, wanted_by
from tests.support.graph_rows import File, view_of


@pytest.mark.parametrize(
    ("question", "is_back", "kind"),
    [
        ("who calls parse_header?", True, None),
        ("docs linked to a failing test that touches parse_header", True, Kind.PAGE),
        ("docs about parse_header", True, Kind.PAGE),
        ("where is parse_header used?", True, None),
        ("what breaks if I change parse_header", True, None),
        ("what uses the code that does this: return what is called by the parser?", True, None),
        ("what does parse_header call?", False, None),
        ("which functions are called by parse_header", False, None),
        ("which tests cover parse_header?", True, Kind.TEST),
        ("where is the implementation that test_header exercises?", False, Kind.CODE),
        ("why does test_header fail?", False, Kind.CODE),
        ('which pages link to "Where requests are called"?', True, Kind.PAGE),
        ("which page is linked where it says: see there", False, Kind.PAGE),
        ("subclasses of Parser", True, None),
        ("how is parse_header exercised by the test suite", True, Kind.TEST),
        ("show call sites for parse_header", True, None),
        ("list what parse_header delegates to", False, None),
        ("what is the class derived from that is described so: a parser", False, None),
        ("how does parse_header work?", None, None),
        ("where is parse_header defined?", None, None),
        ("where is retrying implemented?", None, None),
        ("welche Funktion ruft parse_header auf", None, None),
    ],
)
def test_the_way_a_question_asks(question: str, is_back: bool | None, kind: Kind | None) -> None:
    assert wanted_by(question)[:2] == (is_back, kind)


def test_that_classes_are_asked_for() -> None:
    assert wanted_by("base class of Parser") == Wanted(is_back=False, is_base=True)
    assert not wanted_by("who calls Parser?").is_base


def till() -> GraphView:
    return view_of(
        File("shop/cart.py").defines("Cart", 1, 40, "class"),
        File("shop/till.py").defines("pay", 1, 9).refers("shop.cart.Cart", 3),
        File("shop/view.py").defines("show", 1, 9).refers("shop.till.pay", 4),
        File("tests/test_till.py").defines("test_pay", 1, 9).refers("shop.till.pay", 5),
        File("docs/till.md").refers("shop.till.pay", 7, origin=Origin.MENTION),
    )


def first_place(found: Expansion) -> str:
    return next(one.document_id for one in found.candidates if one.document_id != "shop/till.py")


@pytest.mark.parametrize("hits", [[], [GraphHit("shop/till.py", 1, 9, 1.0)]])
@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("what does `pay` call?", "shop/cart.py"),
        ("who calls `pay`?", "shop/view.py"),
        ("tests for `pay`", "tests/test_till.py"),
        ("which page mentions `pay`?", "docs/till.md"),
    ],
)
def test_what_is_asked_for_comes_first_and_the_rest_is_there(question: str, first: str, hits: list[GraphHit]) -> None:
    found = expand(till(), question, hits)
    assert first_place(found) == first
    assert {"shop/cart.py", "shop/view.py", "tests/test_till.py", "docs/till.md"} <= {
        one.document_id for one in found.candidates
    }


@pytest.mark.parametrize(
    ("question", "is_far"),
    [
        ("what does the code call that is tested by this test: paying at the till", True),
        ("what is linked from the page that is linked where it says: see there", True),
        ("which code does the test exercise that checks this: paying", False),
        ("who calls pay?", False),
    ],
)
def test_that_a_question_goes_two_steps(question: str, *, is_far: bool) -> None:
    assert wanted_by(question).is_far is is_far


def test_what_is_two_steps_away_weighs_more_where_it_is_asked_for() -> None:
    hits = [GraphHit("tests/test_till.py", 1, 9, 1.0)]
    near, far = (
        next(one.score for one in expand(till(), question, hits).candidates if one.document_id == "shop/cart.py")
        for question in ("what does this call?", "what does the code call that is tested by this?")
    )
    assert far > near


def test_what_is_led_to_weighs_less_where_the_question_asks_for_nothing_related_and_names_nothing() -> None:
    hits = [GraphHit("shop/till.py", 1, 9, 1.0)]
    asked, unasked, named = (
        max(one.score for one in expand(till(), question, hits).candidates)
        for question in ("who calls it?", "paying at the till", "paying by `pay`")
    )
    assert unasked < asked == named == 1.0


@pytest.mark.parametrize("words", ["what do ", "which what do does ", "where is ", "list all ", "how is x tested "])
def test_of_a_text_without_end_no_relation_is_looked_for(words: str) -> None:
    assert wanted_by(words * 1_000) == Wanted()
    assert wanted_by(f"{words * 1_000}. who calls parse_header?").is_back is True


@pytest.mark.parametrize("question", ["who calls pay?", "callers of shop.till.pay", "where is `pay` called?"])
def test_callers_come_alone_where_the_question_names_what_they_call(question: str) -> None:
    view = view_of(
        File("shop/till.py").defines("pay", 1, 9).refers("shop.cart.Cart", 3),
        File("shop/cart.py").defines("Cart", 1, 9, "class"),
        File("shop/view.py").refers("shop.till.pay", 1).defines("show", 3, 9).refers("shop.till.pay", 4),
        File("docs/till.md").refers("shop.till.pay", 7, origin=Origin.MENTION),
    )
    found = expand(view, question, [GraphHit("shop/till.py", 1, 9, 1.0)])
    assert found.is_named
    likely = [(one.document_id, one.line) for one in found.candidates if one.score >= 0.7]
    assert likely == [("shop/view.py", 4)]
    assert ("shop/till.py", 1) not in [(one.document_id, one.line) for one in found.candidates]


def test_pages_about_a_symbol_are_asked_for_by_words_that_name_no_relation() -> None:
    view = view_of(
        File("shop/till.py").defines("pay", 1, 9),
        File("shop/view.py").defines("show", 3, 9).refers("shop.till.pay", 4),
        File("docs/till.md").refers("shop.till.pay", 7, origin=Origin.MENTION),
    )
    found = expand(view, "docs about pay", [])
    assert found.candidates[0].document_id == "docs/till.md"
    assert found.candidates[0].score > 0.7
    assert not expand(view, "how are pages of a book paid?", []).is_asked_for
