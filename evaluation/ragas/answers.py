"""Answers to the questions of an evaluation: read from a file, or given by the judge's model from the passages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from sluice.contracts.errors import InvalidInput, first_problem
from sluice.contracts.prompt import PromptMessage
from sluice.contracts.retrieval import Retrieval
from sluice.disk.json_lines import read_objects
from sluice.evaluation.chat_endpoint import ChatEndpoint, ChatMessage
from sluice.evaluation.ragas.metrics import AnsweredQuestion, Response
from sluice.evaluation.retrieval.cases import Case

ANSWER_TOKENS = 400
"""Of an answer that is generated: a few paragraphs."""
PASSAGES = 8
"""Passages that an answer is made from, as a gate request gets them by default."""


def read_responses(path: Path, cases: Sequence[Case]) -> dict[str, str]:
    """The answer of each case by its id, from a file with `{"id" or "query": …, "response": …}` a line.

    Raises:
        InvalidInput: a line is malformed, or names no case; names the line.
    """
    by_query, known = {case.query: case.id for case in cases}, {case.id for case in cases}
    found: dict[str, str] = {}
    for where, fields in read_objects(path):
        try:
            one = Response.model_validate(fields)
        except ValidationError as error:
            field, problem = first_problem(error)
            raise InvalidInput(where, f"{field}: {problem}", "fields are id or query, and response") from error
        case_id = one.id or by_query.get(one.query or "", "")
        if case_id not in known:
            raise InvalidInput(where, "names none of the questions", "give the id or the query of a case")
        found[case_id] = one.response
    return found


def answer_cases(
    cases: Sequence[Case], search: Callable[[Case], Retrieval], respond: Callable[[Case, Retrieval], str | None]
) -> list[AnsweredQuestion]:
    """Each case that has an answer, with the passages that it was asked with."""
    answered = []
    for case in cases:
        found = search(case)
        response = respond(case, found)
        if response:
            answered.append(AnsweredQuestion(case.query, tuple(chunk.text for chunk in found.chunks), response))
    return answered


def given(responses: Mapping[str, str]) -> Callable[[Case, Retrieval], str | None]:
    """Answers that were read."""
    return lambda case, _: responses.get(case.id)


def generated(endpoint: ChatEndpoint, most_usd: float | None) -> Callable[[Case, Retrieval], str | None]:
    """Answers that the model gives from the prompt of the retrieval, until the next may cost more than is left.

    Raises:
        SluiceError: as `ChatEndpoint.ask`.
    """
    spent = 0.0

    def respond(_: Case, found: Retrieval) -> str | None:
        nonlocal spent
        messages = [_said(message) for message in found.prompt]
        if not found.chunks or (
            most_usd is not None and spent + endpoint.cost_at_most(messages, ANSWER_TOKENS) > most_usd
        ):
            return None
        reply = endpoint.ask(messages, max_tokens=ANSWER_TOKENS)
        spent += reply.usd
        return reply.text

    return respond


def _said(message: PromptMessage) -> ChatMessage:
    role = message.role if message.role in ("system", "assistant") else "user"
    return ChatMessage(role=role, content=message.content)
