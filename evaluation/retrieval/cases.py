"""Cases: questions with known right answers.

A file of cases has one JSON object a line:

    {"id": "q1", "query": "how is a lease renewed", "relevant": ["docs/lease.md"]}
    {"query": "what frees a lease", "relevant": {"doc_1f…": 2, "doc_77…": 1}, "filters": {"languages": ["en"]}}

`relevant` names documents by id, URL or path, or single chunks by id, each with a grade (1 in a list, 0 for documents
known to be irrelevant). `relevant_urls` is an alias; `notes` are for people. Without an `id` a case is identified by
the hash of its question and filters, so the order of the lines does not matter.

A test collection in the form of BEIR (Thakur et al., NeurIPS 2021) is a folder of documents, questions and judgments:

    corpus.jsonl     {"_id", "title", "text"} per line
    queries.jsonl    {"_id", "text"} per line
    qrels.tsv        a header, then query-id, corpus-id and score, split by tabs (or qrels/test.tsv)

Further fields are ignored, as these collections contain various ones.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AliasChoices, Field, StrictInt, ValidationError, field_validator, model_validator

from sluice.contracts.api import SubmittedDocument
from sluice.contracts.base import Sha256, Value
from sluice.contracts.errors import InvalidInput, first_problem
from sluice.contracts.retrieval import Filters, QueryText
from sluice.disk.durable import read_objects

Name = Annotated[str, Field(min_length=1, max_length=4_096)]
"""A document id, a URL, a file path or a chunk id."""
Grade = Annotated[StrictInt, Field(ge=0, le=100)]
"""Grade of relevance: 0 is not relevant."""


class Case(Value):
    """One question, and its relevant documents."""

    id: Annotated[str, Field(min_length=1, max_length=512)]
    query: QueryText
    relevant: Annotated[dict[Name, Grade], Field(validation_alias=AliasChoices("relevant", "relevant_urls"))]
    filters: Filters = Filters()
    notes: Annotated[str, Field(max_length=4_000)] = ""

    @model_validator(mode="before")
    @classmethod
    def _known_by_its_question(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("id") is None and isinstance(fields.get("query"), str):
            asked = json.dumps([fields["query"], fields.get("filters")], sort_keys=True, default=str)
            return {**fields, "id": hashlib.sha256(asked.encode()).hexdigest()[:12]}
        return fields

    @field_validator("relevant", mode="before")
    @classmethod
    def _graded(cls, relevant: Any) -> Any:
        if not isinstance(relevant, list | tuple):
            return relevant
        if not all(isinstance(name, str) for name in relevant):
            raise ValueError("a list of names, or an object of names and grades")
        if len(set(relevant)) != len(relevant):
            raise ValueError("the same name twice")
        return dict.fromkeys(relevant, 1)

    @field_validator("relevant")
    @classmethod
    def _has_an_answer(cls, relevant: dict[str, int]) -> dict[str, int]:
        if not any(relevant.values()):
            raise ValueError("nothing in it is relevant, so no answer could be right")
        return relevant

    @property
    def answers(self) -> frozenset[str]:
        """Return the names that are relevant to some degree."""
        return frozenset(name for name, grade in self.relevant.items() if grade > 0)


def read_cases(path: Path) -> tuple[Case, ...]:
    """Return the cases of a file, in its order.

    Raises `InvalidInput`, with line and field, if there is no case, a line is malformed, or two cases have the same id.
    """
    cases: dict[str, Case] = {}
    for where, fields in read_objects(path):
        case = parse_case(where, fields)
        if case.id in cases:
            raise InvalidInput(where, f"id: a second case {case.id!r}", "every id may stand once")
        cases[case.id] = case
    if not cases:
        raise InvalidInput(str(path), "no case in it", 'one {"query": …, "relevant": […]} per line')
    return tuple(cases.values())


def parse_case(where: str, fields: dict[str, Any]) -> Case:
    """Return the case with these fields. Raises `InvalidInput`, naming `where` and the field, if they do not fit."""
    try:
        return Case.model_validate(fields)
    except ValidationError as error:
        remedy = "fields: id, query, relevant or relevant_urls, filters, notes"
        raise InvalidInput(where, ": ".join(first_problem(error)), remedy) from error


def sample_cases(cases: Sequence[Case], count: int) -> tuple[Case, ...]:
    """Return `count` of the cases, always the same ones, in their order: those whose ids have the lowest SHA-256."""
    chosen = sorted(cases, key=lambda case: hashlib.sha256(case.id.encode()).digest())[:count]
    ids = {case.id for case in chosen}
    return tuple(case for case in cases if case.id in ids)


def fingerprint(cases: Iterable[Case]) -> Sha256:
    """Return a hash of all questions and judgments, in any order: only reports with equal hashes are comparable."""
    lines = sorted(json.dumps(case.model_dump(mode="json", exclude={"notes"}), sort_keys=True) for case in cases)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
JUDGMENTS = ("qrels.tsv", "qrels/test.tsv")


class Questions(NamedTuple):
    """The measurable questions, and the number of those without a relevant document."""

    cases: tuple[Case, ...]
    unjudged_count: int


def is_collection(folder: Path) -> bool:
    """Return whether the folder has all three files."""
    return all((folder / name).is_file() for name in (CORPUS, QUERIES)) and _judgments_in(folder) is not None


def make_corpus_name(folder: Path) -> str:
    """Return the name of the collection's own corpus: `eval-` and the folder's name, reduced to allowed characters."""
    return "eval-" + re.sub(r"[^a-z0-9_.-]+", "-", folder.resolve().name.lower())[:58]


def read_documents(folder: Path) -> Iterator[SubmittedDocument]:
    """Yield the documents in order, as plain text under their own ids, without those that have no text.

    Raises `InvalidInput`, which names the line, if one is malformed or a second document has the same id.
    """
    seen: set[str] = set()
    for where, fields in read_objects(folder / CORPUS):
        document_id = _id(where, fields)
        if document_id in seen:
            raise InvalidInput(where, f"_id: a second document {document_id!r}", "every _id may stand once")
        seen.add(document_id)
        title, text = _text(where, fields, "title").strip(), _text(where, fields, "text")
        if not text.strip():
            text = title
        try:
            if text:
                yield SubmittedDocument(id=document_id, title=title or None, text=text, media_type="text/plain")
        except ValidationError as error:
            raise InvalidInput(where, ": ".join(first_problem(error))) from error


def read_questions(folder: Path) -> Questions:
    """Return the questions that have a relevant document.

    Raises `InvalidInput` if a file is missing, a line is malformed, or no question has a relevant document.
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
        # A negative score marks spam in some collections; the measures treat it as irrelevant, like 0.
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
