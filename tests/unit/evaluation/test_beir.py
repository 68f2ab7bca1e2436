"""Collections in BEIR form: what is read, what is left out, and what is refused by its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.evaluation.retrieval.cases import is_collection, make_corpus_name, read_documents, read_questions

HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = [
        {"_id": "a", "title": "Leases", "text": "Renewed.", "metadata": {"year": 1}},
        {"_id": 7, "title": "Only a title", "text": ""},
        {"_id": "hollow", "title": "", "text": " "},
    ]
    questions = [{"_id": "q1", "text": "leases?", "answers": []}, {"_id": "q2", "text": "nothing?"}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, questions)))
    (tmp_path / "qrels.tsv").write_text(HEADER + "q1\ta\t2\nq1\t7\t-1\nq2\ta\t0\n")
    return tmp_path


def test_documents_come_under_their_ids_and_those_without_text_do_not(folder: Path) -> None:
    found = [(one.id, one.title, one.text, one.media_type) for one in read_documents(folder)]
    assert found == [("a", "Leases", "Renewed.", "text/plain"), ("7", "Only a title", "Only a title", "text/plain")]


def test_questions_carry_their_grades_and_those_without_an_answer_are_counted(folder: Path) -> None:
    found = read_questions(folder)
    assert [(case.id, case.query, case.relevant) for case in found.cases] == [("q1", "leases?", {"a": 2, "7": 0})]
    assert found.unjudged_count == 1


def test_the_judgments_may_stand_where_beir_has_them(folder: Path) -> None:
    (folder / "qrels").mkdir()
    (folder / "qrels.tsv").rename(folder / "qrels" / "test.tsv")
    assert is_collection(folder)
    assert len(read_questions(folder).cases) == 1


def test_a_folder_without_judgments_is_no_collection(folder: Path) -> None:
    (folder / "qrels.tsv").unlink()
    assert not is_collection(folder)
    with pytest.raises(InvalidInput, match=r"qrels\.tsv"):
        read_questions(folder)


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("corpus.jsonl", '{"_id": "a", "text": "again"}', "second document 'a'"),
        ("corpus.jsonl", '{"text": "x"}', "_id"),
        ("corpus.jsonl", '{"_id": "b"}', "text: missing"),
        ("queries.jsonl", '{"_id": "q1", "text": "again"}', "second question 'q1'"),
        ("qrels.tsv", "q1\ta", "score"),
        ("qrels.tsv", "q1\ta\tgood", "score"),
    ],
)
def test_a_malformed_line_is_refused_by_number(folder: Path, name: str, line: str, told: str) -> None:
    path = folder / name
    before = path.read_text().rstrip("\n")
    path.write_text(f"{before}\n{line}\n")
    with pytest.raises(InvalidInput) as refused:
        list(read_documents(folder)) if name == "corpus.jsonl" else read_questions(folder)
    assert refused.value.field == f"{path}:{len(before.splitlines()) + 1}"
    assert told in refused.value.problem


def test_a_collection_goes_into_a_corpus_named_after_its_folder(tmp_path: Path) -> None:
    assert make_corpus_name(tmp_path / "SciFact train") == "eval-scifact-train"
    assert len(make_corpus_name(tmp_path / ("x" * 200))) <= 63
