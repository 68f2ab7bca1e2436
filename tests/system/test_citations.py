"""Citations that a person can open: a crawled page by its heading, a PDF by its page, a file by its lines on disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from sluice_client import SluiceClient
from tests.support.instance import Instance
from tests.support.pdf_files import pdf_of
from tests.support.site import Site

pytestmark = pytest.mark.timeout(240)

PARAGRAPH = "It is told here at some length, as a manual does that wants to be read to its end by its readers. " * 8
SECTIONS = {
    "mooring": "The warden moors visiting boats at the eastern pier, and takes the fee in copper coins.",
    "lanterns": "Lanterns on the breakwater are lit at dusk by the apprentice - never by the warden & his sons.",
    "fees": "A berth costs four copper coins per night, well-known to all who sail here.",
}
PAGE = (
    "<html><head><title>Harbour manual</title></head><body><main><article><h1>Harbour manual</h1>"
    + f"<p>{PARAGRAPH}</p>"
    + "".join(
        f'<section id="{name}"><h2>{name.title()}</h2><p>{text}</p><p>{PARAGRAPH}</p></section>'
        for name, text in SECTIONS.items()
    )
    + "</article></main></body></html>"
)
MARKDOWN = "\r\n".join(
    [
        "---",
        "title: Rope",
        "---",
        "# Rope",
        "",
        "<!-- a comment",
        "over two lines -->",
        *(f"Line {number} of what is said about hemp in general." for number in range(60)),
        "## Splices",
        "",
        "A splice of tarred hemp is served with marline\u2028before it is stowed.",
        "",
        "KEY = " + "AKIA" + "Q3EGRJ5T7XW2MZLK",
    ]
)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with closing(Site()) as running:
        running.html("/manual", PAGE)
        running.html(
            "/quiet", f'<meta name="robots" content="nosnippet"><main><p>Gulls are quiet. {PARAGRAPH}</p></main>'
        )
        pages = ("The first page is about gulls.", "The second page: cormorants dive for eels.")
        running.put("/birds.pdf", pdf_of(*pages), Content_Type="application/pdf")
        yield running


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, site: Site) -> Iterator[Instance]:
    folder: Path = tmp_path_factory.mktemp("citations")
    (folder / "rope.md").write_bytes(b"\xef\xbb\xbf" + MARKDOWN.encode())
    settings = {
        "CRAWL__ENABLED": "true",
        "CRAWL__RENDER": "never",
        "CRAWL__REQUESTS_PER_SECOND_PER_HOST": "50",
        "EGRESS__ALLOW": f'["crawl={site.address}"]',
    }
    with Instance(folder, **settings) as instance:
        urls = [site.url(path) for path in ("/manual", "/quiet", "/birds.pdf")]
        accepted = instance.http.post("/v1/documents", json={"documents": [{"url": url} for url in urls]})
        assert accepted.status_code == 202, accepted.text
        ingested = instance.sluice("ingest", "rope.md")
        assert ingested.returncode == 0, ingested.stderr
        assert instance.wait(accepted.json()["run_id"])["status"] == "finished"
        yield instance


def first_citation(instance: Instance, question: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The citation, and its chunk."""
    answer = instance.ask(question, plan="retrieve", top_k=3)["answer"]
    return answer["citations"][0], answer["chunks"][0]


def text_of(instance: Instance, document_id: str, **query: Any) -> Any:
    return instance.http.get(f"/v1/documents/{document_id}/text", params=query)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_crawled_page_is_cited_by_a_fragment_and_by_words_that_are_in_it(
    filled: Instance, site: Site, name: str
) -> None:
    citation, _ = first_citation(filled, SECTIONS[name])
    address, _, fragment = citation["link"].partition("#")
    anchor, _, directive = fragment.partition(":~:text=")
    assert address == site.url("/manual")
    assert anchor == name
    assert f'id="{anchor}"' in PAGE
    shown = " ".join(re.sub(r"<[^>]+>", " ", PAGE).split())
    start, _, end = directive.partition(",")
    assert unquote(start) in shown
    assert shown.index(unquote(end), shown.index(unquote(start))) > 0
    assert not set(start + end) & set("-&,")


def test_a_pdf_is_cited_by_its_page(filled: Instance, site: Site) -> None:
    citation, chunk = first_citation(filled, "What do cormorants dive for?")
    assert citation["link"] == f"{site.url('/birds.pdf')}#page=2"
    assert chunk["page"] == 2


def test_a_file_is_cited_by_its_lines_on_disk_and_its_text_has_the_same_lines(filled: Instance) -> None:
    citation, chunk = first_citation(filled, "How is a splice of tarred hemp served?")
    on_disk = MARKDOWN.split("\r\n")
    first, last = chunk["start_line"], chunk["end_line"]
    assert citation["source"] == f"rope.md:{first}-{last}"
    assert citation["link"] == f"rope.md:{first}"
    assert on_disk[first - 1] in (chunk["text"].split("\n")[0], "## Splices")
    assert any("A splice of tarred hemp" in line for line in on_disk[first - 1 : last])
    found = text_of(filled, chunk["document_id"], start_line=first, end_line=last).json()
    assert (found["start_line"], found["end_line"]) == (first, last)
    assert found["line_count"] == len(on_disk)
    assert found["text"].split("\n")[0] == on_disk[first - 1]
    whole = text_of(filled, chunk["document_id"]).json()["text"].split("\n")
    assert whole[-1] == "KEY = [secret: aws-access-token]"
    differing = [number for number, (ours, theirs) in enumerate(zip(whole, on_disk, strict=True), 1) if ours != theirs]
    assert set(differing) <= {
        *(1, 2, 3),  # the front matter, which no reader of the rendered text sees
        6,
        7,
        on_disk.index("A splice of tarred hemp is served with marline\u2028before it is stowed.") + 1,
        len(on_disk),
    }


def test_the_python_client_reads_lines(filled: Instance) -> None:
    _, chunk = first_citation(filled, "How is a splice of tarred hemp served?")
    with SluiceClient(filled.url) as client:
        found = client.document_text(chunk["document_id"], start_line=8, end_line=9)
    assert found.text == "Line 0 of what is said about hemp in general.\nLine 1 of what is said about hemp in general."


def test_the_text_of_a_page_that_allows_no_snippets_is_refused_with_its_address(filled: Instance, site: Site) -> None:
    _, chunk = first_citation(filled, "Are gulls quiet?")
    refused = text_of(filled, chunk["document_id"])
    assert refused.status_code == 403
    assert site.url("/quiet") in refused.json()["remedy"]


@pytest.mark.parametrize(
    ("document_id", "query", "status", "field"),
    [
        ("nothing", {}, 404, None),
        ("{rope}", {"start_line": 0}, 422, "start_line"),
        ("{rope}", {"start_line": 9_999}, 422, "start_line"),
        ("{rope}", {"start_line": 5, "end_line": 4}, 422, "end_line"),
        ("{rope}", {"corpus": "no-such-corpus"}, 404, None),
    ],
)
def test_lines_and_documents_that_are_not_there_are_told(
    filled: Instance, document_id: str, query: dict[str, Any], status: int, field: str | None
) -> None:
    _, chunk = first_citation(filled, "How is a splice of tarred hemp served?")
    refused = text_of(filled, document_id.format(rope=chunk["document_id"]), **query)
    assert (refused.status_code, refused.json().get("field")) == (status, field)


def test_the_command_line_shows_a_document_by_its_path_or_address(filled: Instance, site: Site) -> None:
    shown = filled.sluice("show", "rope.md", "--lines", "8-9")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split("\n")[1:3] == [
        f"{8 + n}  Line {n} of what is said about hemp in general." for n in (0, 1)
    ]
    assert "Harbour manual" in filled.sluice("show", site.url("/manual"), "--json").stdout
    assert filled.sluice("show", "nothing.md").returncode == 3
    assert filled.sluice("show", "rope.md", "--lines", "x").returncode == 2
