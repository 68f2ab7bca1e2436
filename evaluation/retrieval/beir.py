"""Test collections in the form of BEIR (Thakur et al., NeurIPS 2021): a folder of documents, questions and judgments.

    corpus.jsonl     {"_id", "title", "text"} per line
    queries.jsonl    {"_id", "text"} per line
    qrels.tsv        a header, then query-id, corpus-id and score, split by tabs (or qrels/test.tsv)

Further fields are passed over, as these collections carry what they like.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from sluice.contracts.api import SubmittedDocument
from sluice.contracts.errors import InvalidInput, first_problem
from sluice.disk.json_lines import read_objects
from sluice.evaluation.retrieval.cases import Case, parse_case

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
JUDGMENTS = ("qrels.tsv", "qrels/test.tsv")


class Questions(NamedTuple):
    """The questions that can be measured, and how many have no relevant document and so cannot."""

    cases: tuple[Case, ...]
    unjudged_count: int


def is_collection(folder: Path) -> bool:
    """Whether the folder has all three files."""
    return all((folder / name).is_file() for name in (CORPUS, QUERIES)) and _judgments_in(folder) is not None


def make_corpus_name(folder: Path) -> str:
    """A corpus of the collection's own: `eval-` and the folder's name, as far as a corpus name can hold it."""
    return "eval-" + re.sub(r"[^a-z0-9_.-]+", "-", folder.resolve().name.lower())[:58]


def read_documents(folder: Path) -> Iterator[SubmittedDocument]:
    """The documents in order, as plain text under their own ids; those without any text are left out.

    Raises:
        InvalidInput: a line is malformed, or a second document has the same id; names the line.
    """
    seen: set[str] = set()
    for where, fields in read_objects(folder / CORPUS):
        document_id = _id(where, fields)
        if document_id in seen:
            raise InvalidInput(where, f"_id: a second document {document_id!r}", "every _id may stand once")
        seen.add(document_id)
        title, text = _text(where, fields, "title").strip(), _text(where, fields, "text")
        if text.strip() or title:
            yield _document(where, document_id, title, text if text.strip() else title)


def read_questions(folder: Path) -> Questions:
    """The questions that have a relevant document.

    Raises:
        InvalidInput: a file is missing, a line is malformed, or no question has a relevant document.
    """
    judgments = _judgments_in(folder)
    if judgments is None:
        raise InvalidInput(str(folder), "no qrels.tsv in it", f"a folder with {CORPUS}, {QUERIES} and qrels.tsv")
    relevant = _relevant(judgments)
    cases, unjudged_count = {}, 0
    for where, fields in read_objects(folder / QUERIES):
        case_id = _id(where, fields)
        if case_id in cases:
            raise InvalidInput(where, f"_id: a second question {case_id!r}", "every _id may stand once")
        if not any(relevant.get(case_id, {}).values()):
            unjudged_count += 1
            continue
        known = {"id": case_id, "query": _text(where, fields, "text"), "relevant": relevant[case_id]}
        cases[case_id] = parse_case(where, known)
    if not cases:
        raise InvalidInput(str(folder), "no question has a relevant document", f"do {QUERIES} and qrels.tsv match?")
    return Questions(tuple(cases.values()), unjudged_count)


def _judgments_in(folder: Path) -> Path | None:
    return next((folder / name for name in JUDGMENTS if (folder / name).is_file()), None)


def _relevant(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(str(path), f"cannot be read: {error}") from error
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 3 or not columns[2].strip().lstrip("-").isdigit():
            raise InvalidInput(f"{path}:{number}", "score: no whole number", "query-id, corpus-id and score, by tabs")
        # A negative score marks spam in some collections; to the measures it is as irrelevant as 0.
        found[columns[0]][columns[1]] = max(0, int(columns[2]))
    return found


def _id(where: str, fields: dict[str, Any]) -> str:
    found = fields.get("_id")
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise InvalidInput(where, "_id: missing", "a text that is not empty")
    return str(found)


def _text(where: str, fields: dict[str, Any], name: str) -> str:
    found = fields.get(name)
    if found is None and name == "title":
        return ""
    if not isinstance(found, str):
        raise InvalidInput(where, f"{name}: {'missing' if found is None else 'not a text'}")
    return found


def _document(where: str, document_id: str, title: str, text: str) -> SubmittedDocument:
    try:
        return SubmittedDocument(id=document_id, title=title or None, text=text, media_type="text/plain")
    except ValidationError as error:
        raise InvalidInput(where, ": ".join(first_problem(error))) from error
