"""What the demonstration's web promises: real pages that link to one another, and a search that finds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urljoin

import httpx
import pytest

from bench.demo.web import DemoWeb


@pytest.fixture(scope="module")
def web() -> Iterator[DemoWeb]:
    with DemoWeb() as started:
        yield started


def _search(web: DemoWeb, query: str, **fields: str) -> httpx.Response:
    return httpx.get(f"{web.search_url}/search", params={"q": query, "format": "json", **fields})


def test_the_index_links_to_hundreds_of_pages(web: DemoWeb) -> None:
    links = re.findall(r'href="([\w.]+\.html)"', httpx.get(web.url).text)
    assert len(links) > 300
    assert {"collections.html", "heapq.html", "asyncio.html", "concurrent.futures.html"} <= set(links)


def test_a_page_says_what_pydoc_says_and_its_links_lead_on(web: DemoWeb) -> None:
    page = httpx.get(urljoin(web.url, "collections.html"))
    words = unescape(re.sub(r"<[^>]+>", "", page.text)).replace("\xa0", " ")
    assert "A ChainMap groups multiple dicts" in words
    links = {urljoin(str(page.url), link) for link in re.findall(r'href="([\w.]+\.html)', page.text)}
    answers = {link: httpx.get(link).status_code for link in links}
    assert links
    assert set(answers.values()) == {200}


def test_no_page_leads_to_files_of_this_machine(web: DemoWeb) -> None:
    for module in ("json", "heapq", "asyncio", "collections"):
        assert not re.search(r'href="file:', httpx.get(urljoin(web.url, f"{module}.html")).text)


@pytest.mark.parametrize(
    ("question", "module"),
    [
        ("How do I merge two dictionaries with ChainMap and look up keys?", "collections"),
        ("How does heapq keep the smallest item at the front of a list?", "heapq"),
        ("find where to insert an item into a sorted list by bisection", "bisect"),
        ("How do I read a CSV file?", "csv"),
        ("cache the results of a function with lru_cache", "functools"),
        ("parse command line arguments with ArgumentParser", "argparse"),
    ],
)
def test_a_question_in_words_finds_the_module(web: DemoWeb, question: str, module: str) -> None:
    results = _search(web, question).json()["results"]
    assert f"{web.url}{module}.html" in [result["url"] for result in results[:2]]


def test_the_answer_has_the_shape_of_searxng(web: DemoWeb) -> None:
    answer = _search(web, "heap queue").json()
    assert {"query", "number_of_results", "results", "answers", "suggestions", "unresponsive_engines"} <= set(answer)
    assert {"url", "title", "content", "engine", "score", "category"} <= set(answer["results"][0])
    scores = [result["score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)


def test_nothing_found_is_an_empty_list(web: DemoWeb) -> None:
    assert _search(web, "zygomorphic quokkas").json()["results"] == []


def test_pages_of_results_follow_one_another(web: DemoWeb) -> None:
    first, second = (_search(web, "file", pageno=page).json()["results"] for page in ("1", "2"))
    assert not {result["url"] for result in first} & {result["url"] for result in second}


def test_only_json_is_offered_and_a_question_is_needed(web: DemoWeb) -> None:
    assert _search(web, "heap", format="html").status_code == 403
    assert _search(web, " ").status_code == 400


def test_robots_txt_keeps_crawlers_from_pages_that_exist(web: DemoWeb) -> None:
    assert "Disallow: /topic" in httpx.get(urljoin(web.url, "robots.txt")).text
    assert "for" in httpx.get(urljoin(web.url, "topic?key=LOOPING")).text


def test_an_unchanged_page_is_not_sent_again(web: DemoWeb) -> None:
    page = urljoin(web.url, "heapq.html")
    etag = httpx.get(page).headers["etag"]
    assert httpx.get(page, headers={"If-None-Match": etag}).status_code == 304


def test_what_is_not_there_is_not_found(web: DemoWeb) -> None:
    assert httpx.get(urljoin(web.url, "os.system.html")).status_code == 404
    assert httpx.get(urljoin(web.url, "numpy.html")).status_code == 404
