"""`sluice guard`: the gates over source trust and poisoning, for recent answers or for a file of questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.agent.answers import describe_check
from sluice.cli.output import AsJson, Corpus, console, marked, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.errors import InvalidInput, NotFound
from sluice.trust.gates import GuardReport, summarise, write_evidence
from sluice.workers.service.trust.guard import judge_questions, judge_runs


def guard(
    corpus: Corpus = "default",
    questions: Annotated[
        Path | None, typer.Option(help="Ask these now: one a line, as text or as JSON with `query` or `text`.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=10_000, help="Look at so many of the latest finished runs.")] = 100,
    evidence: Annotated[
        Path | None, typer.Option(help="Write what was served, and its trust: reports/evidence-trust.jsonl.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check source trust and poisoning of what is served, for CI.

    Leaves with 1 where a gate failed. Every text is inspected again by the rules of today, and trusted by the lists of
    today. Without --questions it looks at the answers of recent runs.
    """
    with session(as_json=as_json, needs_workers=questions is not None) as context:
        if questions is not None:
            judged = list(judge_questions(context, corpus, read_questions(questions)))
        else:
            judged = list(judge_runs(context, corpus, runs))
        if not judged:
            raise NotFound(f"no finished run of corpus {corpus!r} has an answer with passages; give --questions FILE")
        report = summarise(corpus, judged)
        if evidence is not None:
            write_evidence(judged, evidence)
        if as_json:
            print_json(report)
        else:
            _print_report(report, evidence)
        if not report.good:
            raise typer.Exit(1)


def read_questions(path: Path) -> list[str]:
    """The questions of a file, in its order; blank lines are skipped.

    Raises:
        InvalidInput: the file cannot be read, a line of JSON has no question, or there is no question.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("questions", f"{path} cannot be read: {error}", "one question a line") from error
    found = [_question(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line.strip()]
    if not found:
        raise InvalidInput("questions", f"{path} has no question", "one a line")
    return found


def _question(line: str, where: str) -> str:
    if not line.lstrip().startswith("{"):
        return line.strip()
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise InvalidInput(where, "no JSON", 'a question as plain text, or {"query": …}') from error
    question = fields.get("query", fields.get("text"))
    if not isinstance(question, str) or not question.strip():
        raise InvalidInput(where, "has neither query nor text", 'one {"query": …} a line')
    return question


def _print_report(report: GuardReport, evidence: Path | None) -> None:
    rows = [
        (one.id, one.severity, one.passed, one.failed, f"{one.mean:.3f}", f"{one.worst:.3g}", _lowest(one.minimum))
        for one in report.gates
    ]
    columns = ("gate", "severity", "passed", "failed", "mean", "worst", "lowest chunk")
    print_table(f"{report.retrievals} retrievals of {report.corpus}", columns, rows)
    for one in report.failures:
        for check in one.checks:
            if not check.passed:
                console.print(
                    f"[red]failed[/] {describe_check(check)} · {marked(one.run_id or '')} {marked(one.query[:120])}",
                    highlight=False,
                    soft_wrap=True,
                )
    if evidence is not None:
        console.print(f"evidence: {marked(evidence)}", highlight=False)


def _lowest(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
