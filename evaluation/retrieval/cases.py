"""Cases: questions with the answers that are known to be right.

A file of cases has one JSON object a line:

    {"id": "q1", "query": "how is a lease renewed", "relevant": ["docs/lease.md"]}
    {"query": "what frees a lease", "relevant": {"doc_1f…": 2, "doc_77…": 1}, "filters": {"languages": ["en"]}}

`relevant` names documents by id, URL or path, or single chunks by id, each with a grade (1 in a list, 0 for
what is known to be irrelevant). `relevant_urls` may stand in its place; `notes` are for people. Without an `id` a
case is known by the hash of its question and filters, so the order of the lines does not matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, Field, StrictInt, ValidationError, field_validator, model_validator

from sluice.contracts.base import Sha256, Value
from sluice.contracts.errors import InvalidInput, first_problem
from sluice.contracts.retrieval import Filters, QueryText
from sluice.disk.json_lines import read_objects

Name = Annotated[str, Field(min_length=1, max_length=4_096)]
"""A document id, a URL, a file path or a chunk id."""
Grade = Annotated[StrictInt, Field(ge=0, le=100)]
"""How relevant: 0 is not at all."""


class Case(Value):
    """One question, and what would answer it."""

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
        """The names that are relevant to some degree."""
        return frozenset(name for name, grade in self.relevant.items() if grade > 0)


def read_cases(path: Path) -> tuple[Case, ...]:
    """The cases of a file, in its order.

    Raises:
        InvalidInput: the file has no case, a line is malformed, or two cases have the same id; names line and field.
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
    """The case, if the fields are one.

    Raises:
        InvalidInput: they are not; names `where` and the field.
    """
    try:
        return Case.model_validate(fields)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InvalidInput(
            where, f"{field}: {problem}", "fields: id, query, relevant or relevant_urls, filters, notes"
        ) from error


def sample_cases(cases: Sequence[Case], count: int) -> tuple[Case, ...]:
    """`count` of the cases, always the same ones, in their order: those whose ids have the lowest SHA-256."""
    chosen = sorted(cases, key=lambda case: hashlib.sha256(case.id.encode()).digest())[:count]
    ids = {case.id for case in chosen}
    return tuple(case for case in cases if case.id in ids)


def fingerprint(cases: Iterable[Case]) -> Sha256:
    """A hash of everything that is asked and judged, whatever the order: two reports compare only where it agrees."""
    lines = sorted(json.dumps(case.model_dump(mode="json", exclude={"notes"}), sort_keys=True) for case in cases)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
