"""`sluice eval`: measure how well a corpus answers questions with known answers, and compare two measurements.

The questions go over HTTP, as an agent's would: a few at a time, and none before the server has room for it. Answers
can be judged against the retrieved passages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel

from sluice.cli.agent.ingest import indexing_progress
from sluice.cli.command import Shown, alone
from sluice.cli.connection import whereabouts
from sluice.cli.output import checked_corpus, configured, print_table, say, warn
from sluice.cli.session import quiet, session
from sluice.contracts.api import RunAccepted, RunView, SubmittedDocument
from sluice.contracts.errors import InvalidInput, InvalidSetting, NotFound, Overloaded
from sluice.contracts.retrieval import TEXT_STRATEGIES, Query, Retrieval, Strategy
from sluice.evaluation.ragas.bridge import PASSAGES, answer_cases, generated, given, read_responses
from sluice.evaluation.ragas.environment import FOLDER, install
from sluice.evaluation.report import write_report
from sluice.evaluation.retrieval import tables
from sluice.evaluation.retrieval.ask import Answered, Submitted, ask_all, submit_documents
from sluice.evaluation.retrieval.cases import (
    Case,
    make_corpus_name,
    read_cases,
    read_documents,
    read_questions,
    sample_cases,
)
from sluice.evaluation.retrieval.measures import require_library
from sluice.evaluation.retrieval.report import (
    MAX_DROP,
    Subject,
    cache_hit_rate,
    compare,
    headline_strategy,
    list_unknown,
    make_report,
    read_retrieval_report,
)
from sluice.otel.logs import configure
from sluice.workers.context import Context
from sluice_client import SluiceClient
from sluice_client import errors as client_errors
from sluice_client.errors import Forbidden

if TYPE_CHECKING:
    from rich.progress import Progress

    from sluice.workers.training.fit_model import Fitted

REPORT = Path("reports/retrieval-metrics.json")


class _Questions(NamedTuple):
    """The questions, and the corpus that they go to; `collection` is the folder that the corpus comes from, if any."""

    cases: tuple[Case, ...]
    unjudged_count: int
    corpus: str
    collection: Path | None


@alone
def retrieval(
    path: Path,
    corpus: str | None = None,
    strategy: list[Strategy] | None = None,
    ingest: bool = True,
    questions: int | None = None,
    at_once: int = 4,
    output: Path = REPORT,
    responses: Path | None = None,
    generate: bool = False,
    misses: bool = False,
    fit: bool = False,
    url: str | None = None,
    api_key: str | None = None,
    timeout: float = 3_600.0,
    as_json: bool = False,
) -> Shown:
    """Ask every question by each strategy; print the measures and write the report. `retrieval` may be left out."""
    require_library()
    if fit and url:
        raise InvalidInput("url", "--fit reads and writes the instance of this machine", "leave it out")
    asked = _questions(path, corpus, questions)
    # Retried attempts are not logged; the last failure becomes the error.
    configure("sluice-cli", quiet(configured().telemetry, "error"))
    with connect(url, api_key) as client, indexing_progress(quiet=as_json) as progress:
        answered_by = server_version(client)
        fed = _fed(client, asked, timeout, progress) if asked.collection and ingest else None
        _require_content(client, asked)
        answers = _answers(client, asked, strategy or TEXT_STRATEGIES, at_once, progress)
        hit_rate = _cache_hit_rate(client)
        judged = judge_responses(client, asked.corpus, answers, responses, generate=generate)
    subject = Subject(
        source=str(path),
        corpus=asked.corpus,
        sluice_version=version("sluice"),
        server_version=answered_by,
        at_once=at_once,
    )
    facts = {"unjudged_count": asked.unjudged_count, "fed": fed, "cache_hit_rate": hit_rate, **judged}
    report = make_report(subject, asked.cases, answers, datetime.now(UTC), **facts)
    write_report(report, output)
    for unknown in list_unknown(report):
        warn(unknown)
    fits = _fit(asked) if fit else None
    once_a_question = {"values"} if misses else {"values", "misses"}
    summary = report.model_dump(mode="json", exclude={"strategies": {"__all__": once_a_question}})
    fitted = {"fit": fits.model_dump(mode="json")} if fits else {}
    value = {"report": str(output), **summary, **fitted}

    def draw() -> None:
        print_table(*tables.metrics_table(report))
        for note in tables.write_notes(report):
            say(f"note {note}")
        for name, part in report.strategies.items() if misses else ():
            print_table(*tables.misses_table(name, part.misses))
        for line in fits.lines() if fits else ():
            say(line)
        say(f"report: {output}")

    return Shown(value, draw)


@alone
def compare_reports(before: Path, after: Path, max_drop: float = MAX_DROP) -> Shown:
    """Compare two reports of the same questions; leave with 1 when a headline measure dropped too far."""
    found = compare(read_retrieval_report(before), read_retrieval_report(after), max_drop)

    def draw() -> None:
        print_table(*tables.comparison_table(found))
        say(tables.write_verdict(found))

    value = {**found.model_dump(mode="json"), "ok": not found.drops}
    return Shown(value, draw, exit_code=int(bool(found.drops)))


@alone
def install_ragas() -> Shown:
    """Install the `ragas` package into an environment of its own: some 700 MB, a few minutes."""
    folder = configured().data_dir / FOLDER
    install(folder)
    return Shown({"installed": str(folder)}, f"installed in {folder}")


def _fit(asked: _Questions) -> Fitted:
    from sluice.workers.steps.retrieve import Retriever
    from sluice.workers.training.fit_model import fit_model
    from sluice.workers.wiring.inject import assemble

    with session() as context:
        return fit_model(assemble(Retriever, context), asked.corpus, asked.cases)


def _questions(path: Path, corpus: str | None, most: int | None) -> _Questions:
    if path.is_dir():
        cases, unjudged_count = read_questions(path)
        name, collection = corpus or make_corpus_name(path), path
    else:
        cases, unjudged_count = read_cases(path), 0
        name, collection = corpus or "default", None
    chosen = cases if most is None else sample_cases(cases, most)
    return _Questions(chosen, unjudged_count, checked_corpus(name), collection)


def _cache_hit_rate(client: SluiceClient) -> float | None:
    """Return the server's hit rate, or None where the caller may not see the metrics."""
    try:
        return cache_hit_rate(client.metrics())
    except Forbidden:
        return None


def _require_content(client: SluiceClient, asked: _Questions) -> None:
    first = client.query(asked.cases[0].query, asked.corpus, top_k=1, strategy=Strategy.BM25)
    if first.generation is None:
        raise NotFound(f"corpus {asked.corpus!r} holds nothing yet: ingest into it, or name another with --corpus")


def _fed(client: SluiceClient, asked: _Questions, timeout: float, progress: Progress) -> Submitted:
    task = progress.add_task(f"indexing into {asked.corpus}", total=None)
    return submit_documents(
        read_documents(asked.collection or Path()),
        asked.corpus,
        LiveServer(client),
        sleep=time.sleep,
        clock=time.monotonic,
        timeout_seconds=timeout,
        on_progress=lambda done, known: progress.update(task, completed=done, total=known),
    )


def _answers(
    client: SluiceClient, asked: _Questions, strategies: Sequence[Strategy], at_once: int, progress: Progress
) -> list[Answered]:
    chosen, search = list(dict.fromkeys(strategies)), LiveServer(client).search
    asking = ask_all(asked.cases, chosen, asked.corpus, search, at_once=at_once)
    with closing(asking):
        return list(progress.track(asking, len(asked.cases) * len(chosen), description="asking"))


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
        return _answered(RunAccepted, lambda: self._client.add_documents(handed_in, corpus, create_corpus=True))

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
