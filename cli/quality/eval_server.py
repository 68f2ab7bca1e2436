"""The server that an evaluation queries, and the judging of answers against the retrieved passages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from sluice.cli.connection import whereabouts
from sluice.cli.session import session
from sluice.contracts.api import RunAccepted, RunView, SubmittedDocument
from sluice.contracts.errors import InvalidInput, InvalidSetting, Overloaded
from sluice.contracts.retrieval import Query, Retrieval
from sluice.evaluation.ragas.bridge import PASSAGES, answer_cases, generated, given, read_responses
from sluice.evaluation.retrieval.ask import Answered
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.report import headline_strategy
from sluice.workers.context import Context
from sluice_client import SluiceClient
from sluice_client import errors as client_errors

PROMPT = "rag"
"""The prompt template for generated answers."""


SomeModel = TypeVar("SomeModel", bound=BaseModel)


def connect(url: str | None, api_key: str | None) -> SluiceClient:
    """Return a client of the server at `url`, or of the instance on this machine."""
    where, own_key = (url, None) if url else whereabouts()
    return SluiceClient(where, api_key or own_key)


def server_version(client: SluiceClient) -> str:
    """Return the server's version. Raises `Unavailable` if the server does not answer."""
    try:
        return client.health().version
    except client_errors.Unavailable as error:
        raise client_errors.Unavailable(f"{error}; is `sluice up` running, or does --url say where?") from error


class LiveServer:
    """The client, in the form that an evaluation queries and submits documents to."""

    def __init__(self, client: SluiceClient) -> None:
        self._client = client

    def search(self, query: Query) -> Retrieval:
        """Answer a query."""
        asked = {name: getattr(query, name) for name in query.model_fields_set}
        return _answered(Retrieval, lambda: self._client.query(**asked))

    def add_documents(self, documents: Sequence[SubmittedDocument], corpus: str) -> RunAccepted:
        """Submit documents."""
        handed_in = [one.model_dump(mode="json", exclude_unset=True) for one in documents]
        return _answered(RunAccepted, lambda: self._client.add_documents(handed_in, corpus))

    def run(self, run_id: str) -> RunView:
        """Return the state of a run."""
        return _answered(RunView, lambda: self._client.run(run_id))


def _answered(kind: type[SomeModel], ask: Callable[[], BaseModel]) -> SomeModel:
    """Convert the client's answer to the server's own type. The client's `Overloaded` becomes the server's."""
    try:
        return kind.model_validate_json(ask().model_dump_json(exclude_unset=True))
    except client_errors.Overloaded as error:
        raise Overloaded(error.message, error.retry_after_seconds) from error


def judge_responses(
    client: SluiceClient, corpus: str, answers: Sequence[Answered], responses: Path | None, *, generate: bool
) -> dict[str, Any]:
    """Return the measures of the answers to the questions, by their field names in the report; nothing while the flag
    `ragas` is off. The answers come from a file, or the judge's model generates them. Raises `InvalidInput` if the file
    does not fit, or `generate` is set as well; `InvalidSetting` if `generate` is set, and there is no judge."""
    if generate and responses:
        raise InvalidInput("responses", "given together with --generate", "take one of them")
    if not generate and not responses:
        return {}
    first = headline_strategy(answer.strategy for answer in answers)
    names = {answer.case.id: answer.names for answer in answers if answer.strategy == first}
    cases = [answer.case for answer in answers if answer.strategy == first]
    with session() as context:
        if not context.flags.enabled("ragas"):
            return {}
        respond = _generator(context) if responses is None else given(read_responses(responses, cases))
        answered = answer_cases(cases, lambda case: _search(client, corpus, case, with_prompt=generate), respond)
        found = context.ragas.evaluate(cases, names, answered)
    return found.model_dump(include={"groundedness", "faithfulness", "judged", "method"}) if found else {}


def _generator(context: Context) -> Callable[[Case, Retrieval], str | None]:
    if context.judge is None:
        raise InvalidSetting("judge.model", "not set, so nothing can answer", "name a model, or use --responses")
    return generated(context.judge, context.settings.budget.day_usd)


def _search(client: SluiceClient, corpus: str, case: Case, *, with_prompt: bool) -> Retrieval:
    prompt = {"prompt": PROMPT} if with_prompt else {}
    found = client.query(case.query, corpus, top_k=PASSAGES, filters=case.filters, **prompt)
    return Retrieval.model_validate_json(found.model_dump_json(exclude_unset=True))
