"""`sluice eval`: measure how well a corpus answers questions with known answers, and compare two measurements.

The questions go over HTTP, as an agent's would: a few at a time, and none before the server has room for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sluice.cli.agent.ingest import indexing_progress
from sluice.cli.command import Shown, alone
from sluice.cli.configured import configured
from sluice.cli.output import checked_corpus, print_table, say, warn
from sluice.cli.quality.eval_server import LiveServer, connect, judge_responses, server_version
from sluice.cli.session import quiet
from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.retrieval import TEXT_STRATEGIES, Strategy
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
from sluice.evaluation.retrieval.compare import MAX_DROP, compare
from sluice.evaluation.retrieval.fit_fusion import fit_lexical_weight
from sluice.evaluation.retrieval.measures import require_library
from sluice.evaluation.retrieval.report import Subject, cache_hit_rate, list_unknown, make_report, read_retrieval_report
from sluice.otel.logs import configure
from sluice_client import SluiceClient
from sluice_client.errors import Forbidden

if TYPE_CHECKING:
    from rich.progress import Progress

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
    fit_fusion: bool = False,
    url: str | None = None,
    api_key: str | None = None,
    timeout: float = 3_600.0,
    as_json: bool = False,
) -> Shown:
    """Ask every question by each strategy; print the measures and write the report. `retrieval` may be left out."""
    require_library()
    if fit_fusion and strategy and not set(strategy) >= set(TEXT_STRATEGIES):
        raise InvalidInput("strategy", "--fit-fusion needs the answers by bm25, vector and hybrid", "leave it out")
    asked = _questions(path, corpus, questions)
    # Retried attempts are not logged; the last failure becomes the error.
    configure("sluice-cli", quiet(configured().telemetry, "error"))
    with connect(url, api_key) as client, indexing_progress(quiet=as_json) as progress:
        answered_by = server_version(client)
        fed = _fed(client, asked, timeout, progress) if asked.collection and ingest else None
        _require_content(client, asked)
        answers = _answers(client, asked, strategy or TEXT_STRATEGIES, at_once, progress, with_scores=fit_fusion)
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
    fit = fit_lexical_weight(answers) if fit_fusion else None
    once_a_question = {"values"} if misses else {"values", "misses"}
    summary = report.model_dump(mode="json", exclude={"strategies": {"__all__": once_a_question}})
    fitted = {"fit": fit.model_dump(mode="json")} if fit else {}
    value = {"report": str(output), **summary, **fitted}

    def draw() -> None:
        print_table(*tables.metrics_table(report))
        for note in tables.write_notes(report):
            say(f"note {note}")
        for name, part in report.strategies.items() if misses else ():
            print_table(*tables.misses_table(name, part.misses))
        if fit:
            print_table(*tables.fit_table(fit))
            for line in tables.write_fit(fit):
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
    client: SluiceClient,
    asked: _Questions,
    strategies: Sequence[Strategy],
    at_once: int,
    progress: Progress,
    *,
    with_scores: bool,
) -> list[Answered]:
    chosen, search = list(dict.fromkeys(strategies)), LiveServer(client).search
    asking = ask_all(asked.cases, chosen, asked.corpus, search, at_once=at_once, with_scores=with_scores)
    with closing(asking):
        return list(progress.track(asking, len(asked.cases) * len(chosen), description="asking"))
