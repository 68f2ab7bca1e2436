"""Several answers put together: each page once, what many found first, no site alone at the top."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.ingest import SearchResult
from sluice.ingest.search.gather import MOST_OF_A_SITE, diverse, merged


def found(*urls: str, snippet: str = "", title: str = "t", at: datetime | None = None) -> list[SearchResult]:
    return [
        SearchResult(url=url, title=title, snippet=snippet, published_at=at, rank=rank)
        for rank, url in enumerate(urls, 1)
    ]


def urls(results: object) -> list[str]:
    return [result.url for result in results]  # type: ignore[attr-defined]


def test_what_several_found_comes_before_what_one_found() -> None:
    first = found("https://a.example/", "https://b.example/", "https://c.example/")
    second = found("https://d.example/", "https://c.example/")
    assert urls(merged([first, second], 9))[0] == "https://c.example/"


def test_ties_go_to_the_earlier_answer() -> None:
    both = [found("https://a.example/"), found("https://b.example/")]
    assert urls(merged(both, 9)) == ["https://a.example/", "https://b.example/"]
    assert urls(merged(both[::-1], 9)) == ["https://b.example/", "https://a.example/"]


def test_of_a_page_that_several_hold_each_says_what_the_others_do_not() -> None:
    day = datetime(2024, 5, 1, tzinfo=UTC)
    first = found("http://a.example/", title="Title of the first")
    second = found("https://a.example/", title="Another", snippet="text", at=day)
    (only,) = merged([first, second], 9)
    assert (only.url, only.title, only.snippet, only.published_at) == (
        "https://a.example/",
        "Title of the first",
        "text",
        day,
    )


def test_no_site_takes_the_first_places_for_itself() -> None:
    mill = [f"https://{number}.mill.example.com/" for number in range(5)]
    others = ["https://a.example.org/", "https://b.example.net/"]
    ordered = urls(diverse(found(*mill, *others)))
    assert ordered == [*mill[:2], *others, *mill[2:]]


def test_where_there_is_one_site_only_its_order_stays() -> None:
    one = found(*[f"https://docs.python.org/{number}" for number in range(9)])
    assert diverse(one) == one


addresses = st.lists(st.integers(0, 12).map(lambda number: f"https://site{number % 5}.example/{number}"), unique=True)


@given(answers=st.lists(addresses, min_size=1, max_size=4), top_k=st.integers(1, 20))
def test_every_page_stands_there_once_with_ranks_from_one(answers: list[list[str]], top_k: int) -> None:
    together = merged([found(*answer) for answer in answers], top_k)
    everything = {url for answer in answers for url in answer}
    assert len(together) == min(top_k, len(everything))
    assert len(set(urls(together))) == len(together)
    assert set(urls(together)) <= everything
    assert [result.rank for result in together] == list(range(1, len(together) + 1))


def test_a_round_has_two_of_each_site() -> None:
    assert MOST_OF_A_SITE == 2
