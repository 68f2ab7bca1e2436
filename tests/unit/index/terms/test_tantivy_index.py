"""Terms: stems, identifiers and boosts."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sluice.contracts.retrieval import Query, Strategy
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from sluice.index.terms import terms
from sluice.index.terms.analysis import (
    LANGUAGES,
    analyse,
    analyse_question,
    analysis_language,
    extract_query_identifiers,
    split_identifiers,
)
from sluice.index.terms.terms import extract_terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parseHttpRequest", ["parse", "http", "request", "parsehttprequest"]),
        ("HTTPServer2", ["http", "server", "2", "httpserver2"]),
        ("load_json_file()", ["load", "json", "file", "loadjsonfile"]),
        ("plain words only", []),
        ("__init__", []),
    ],
)
def test_compound_identifiers_give_their_parts_and_the_whole(text: str, expected: list[str]) -> None:
    assert list(split_identifiers(text)) == expected


def test_a_question_may_name_an_identifier_in_any_spelling() -> None:
    assert "parsehttprequest" in extract_query_identifiers("where is parse_http_request")
    assert "parsehttprequest" in extract_query_identifiers("where is parseHttpRequest")


def _content(question: str) -> tuple[str, ...]:
    return tuple(term for (term,) in analyse_question(question).content)


def test_function_words_leave_a_question_unless_it_has_nothing_else() -> None:
    assert _content("How do the running ferrets sleep?") == ("run", "ferret", "sleep")
    assert _content("to be or not to be") == ("to", "be", "or", "not")
    assert analyse("The naïve café") == ["the", "naiv", "cafe"]


def test_function_words_are_those_of_the_language_in_which_is_asked() -> None:
    both = ("en", "de")
    assert analyse_question("Was war die Frist?", both).content == (("frist", "de:frist"),)
    assert analyse_question("what was the die cast of", both).content == (("die", "de:die"), ("cast", "de:cast"))
    assert analyse_question("die was", ("en",)).content == (("die",),)
    assert analyse_question("the who", both).content == (("the", "de:the"), ("who", "de:who"))
    assert analyse_question("renew renewing", both).content == (("renew", "de:renew"), ("de:renewing",))


def test_a_term_is_counted_as_often_as_the_question_has_it_and_function_words_stand_apart() -> None:
    question = "leases: renewing a lease, or the lease's renewal"
    content, function, counts = analyse_question(question)
    assert content == (("leas",), ("renew",))
    assert function == (("a",), ("or",), ("the",), ("s",))
    assert (counts["leas"], counts["renew"], counts["the"]) == (3, 2, 1)
    content, function, counts = analyse_question(question, ("en", "de"))
    assert content == (("leas", "de:leas"), ("renew", "de:renewing"), ("de:renewal",))
    assert function == (("a", "de:a"), ("or", "de:or"), ("the", "de:the"), ("s", "de:s"))
    assert (counts["leas"], counts["de:leas"], counts["renew"], counts["de:renewal"]) == (3, 3, 2, 1)


@pytest.mark.parametrize(
    ("declared", "analysed"),
    [("de-AT", "de"), ("DE", "de"), ("nb", "no"), ("python", "en"), ("zh", "en"), ("", "en"), (None, "en")],
)
def test_a_declared_language_is_analysed_as_the_nearest_that_there_is(declared: str | None, analysed: str) -> None:
    assert analysis_language(declared) == analysed


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_stems_and_function_words_of_its_own(language: str) -> None:
    assert all(term.startswith(f"{language}:") for term in analyse("Haus maison дом evler", language))
    assert len(analyse_question("Haus maison дом evler", (language,)).content) == 4


def test_analysis_may_run_in_many_threads_at_once() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(200):  # no two alike: what was analysed lately is remembered
                assert _content(f"renewing the leases {number}") == ("renew", "leas", str(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("how are requests parsed over http", "camel"),
        ("load_json", "snake"),
        ("loadJson", "snake"),
        ("sleeping ferret", "prose"),
        ("mustelids", "titled"),
    ],
)
def test_code_and_prose_are_found_in_the_words_of_the_question(
    tmp_path: Path, make, question: str, expected: str
) -> None:
    documents = [
        make.document("camel", "public void parseHttpRequest(Socket socket) {}", language="java"),
        make.document("snake", "def load_json(path): return json.loads(path.read_text())", language="python"),
        make.document("prose", "Ferrets sleep for most of the day."),
        make.document("titled", "They are long and thin.", title="Mustelids"),
        make.document("other", "Something else entirely."),
    ]
    with IndexWriter(tmp_path, "c") as writer:
        writer.append(*make.batch(documents))
        writer.publish()
    found = IndexReader(tmp_path, "c", QuerySettings()).search(Query(query=question, strategy=Strategy.BM25))
    assert found.chunks[0].document_id == expected


def test_an_index_that_has_titles_in_a_field_of_their_own_is_searched_with_new_documents_and_rebuilt(
    tmp_path: Path, make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(question: str) -> set[str]:
        reader = IndexReader(tmp_path, "c", QuerySettings())
        found = reader.search(Query(query=question, strategy=Strategy.BM25)).chunks
        return {chunk.document_id for chunk in found}

    with monkeypatch.context() as former, IndexWriter(tmp_path, "c") as writer:
        former.setattr(
            terms,
            "extract_chunk_terms",
            lambda title, language, chunk: {
                "text": extract_terms(chunk.text)[0],
                "title": extract_terms(title)[0],
                "headings": "",
                "code": "",
                "language": "",
            },
        )
        writer.append(*make.batch([make.document("former", "They are long and thin.", title="Mustelids")]))
        writer.publish()
    assert search("mustelids") == {"former"}
    with IndexWriter(tmp_path, "c") as writer:
        writer.append(*make.batch([make.document("new", "They sleep for most of the day.", title="Mustelids")]))
        assert search("mustelids") == {"former", "new"}
        writer.publish()
        assert search("mustelids") == {"former", "new"}
        writer.rebuild()
        assert search("mustelids") == {"former", "new"}
        assert search("thin") == {"former"}
