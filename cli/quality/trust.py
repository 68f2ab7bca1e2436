"""`sluice eval guard` and `sluice eval redteam`: the trust of served sources, and attacks on an instance."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sluice.cli.agent.answers import describe_check
from sluice.cli.command import Shown, alone, on_disk, print_rows
from sluice.cli.output import console, error_console, marked
from sluice.cli.quality.eval import LiveServer, connect, server_version
from sluice.cli.session import begin_work
from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.retrieval import Filters, Query
from sluice.evaluation.retrieval.ask import submit_documents
from sluice.trust.gates import GuardReport, summarise, write_evidence
from sluice.trust.redteam import SHIPPED, Attack, Outcome, RedTeamReport, outcome_of, read_attacks, summarise_attacks
from sluice.workers.context import Context
from sluice.workers.service.quarantine import judge_questions, judge_runs
from sluice_client import SluiceClient
from sluice_client import errors as client_errors

_SCRATCH = "redteam-"
_PASSAGES = 20


@on_disk
def guard(
    context: Context,
    corpus: str = "default",
    questions: Path | None = None,
    runs: int = 100,
    evidence: Path | None = None,
) -> Shown:
    """Check source trust and poisoning of served passages, for CI.

    Exits with 1 where a gate failed. Inspects every text again by the present rules, and trusts by the present lists.
    Without --questions it looks at the answers of recent runs.
    """
    if questions is not None:
        begin_work(context)
        judged = list(judge_questions(context, corpus, read_questions(questions)))
    else:
        judged = list(judge_runs(context, corpus, runs))
    if not judged:
        raise NotFound(f"no finished run of corpus {corpus!r} has an answer with passages; give --questions FILE")
    report = summarise(corpus, judged)
    if evidence is not None:
        write_evidence(judged, evidence)
    return Shown(report, lambda: _print_gates(report, evidence), exit_code=int(not report.good))


def read_questions(path: Path) -> list[str]:
    """Return the questions of a file, in its order; blank lines are skipped. Raises `InvalidInput` if the file cannot
    be read, a line of JSON has no question, or there is no question."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("questions", f"{path} cannot be read: {error}", "one question a line") from error
    found = []
    for number, line in enumerate(lines, start=1):
        told: Any = line.strip()
        if told.startswith("{"):
            where = f"{path}:{number}"
            try:
                fields = json.loads(told)
            except ValueError as error:
                raise InvalidInput(where, "no JSON", 'a question as plain text, or {"query": …}') from error
            told = fields.get("query", fields.get("text"))
            if not isinstance(told, str) or not told.strip():
                raise InvalidInput(where, "has neither query nor text", 'one {"query": …} a line')
        if told:
            found.append(told)
    if not found:
        raise InvalidInput("questions", f"{path} has no question", "one a line")
    return found


def _print_gates(report: GuardReport, evidence: Path | None) -> None:
    lowest = ("lowest chunk", lambda one: "-" if one.minimum is None else f"{one.minimum:.3f}")
    counts, figures = "gate=id severity passed failed", (("mean", "{.mean:.3f}"), ("worst", "{.worst:.3g}"), lowest)
    print_rows(f"{report.retrievals} retrievals of {report.corpus}", report.gates, counts, *figures)
    for one in report.failures:
        for check in one.checks:
            if not check.passed:
                asked = f"{marked(one.run_id or '')} {marked(one.query[:120])}"
                console.print(f"[red]failed[/] {describe_check(check)} · {asked}")
    if evidence is not None:
        console.print(f"evidence: {marked(evidence)}")


@alone
def redteam(
    corpus: str | None = None,
    attacks: Path = SHIPPED,
    keep: bool = False,
    url: str | None = None,
    api_key: str | None = None,
    timeout: float = 900.0,
) -> Shown:
    """Attack a running instance with commands to its readers' models, and print which came through.

    Exits with 1 where an overt or hidden command came back unmarked. Requests that only a language model can tell from
    honest ones are reported, and do not change the exit code. The attack documents are removed afterwards.
    """
    name = corpus or f"{_SCRATCH}{secrets.token_hex(4)}"
    if not name.startswith(_SCRATCH):
        raise InvalidInput("corpus", f"{name!r} may hold more than attacks", f"a name that begins with {_SCRATCH}")
    sent = read_attacks(attacks)
    with connect(url, api_key) as client:
        try:
            report = summarise_attacks(name, list(_asked(client, name, sent, timeout)))
        finally:
            if not keep:
                _remove(client, name, sent)
    value = {**report.model_dump(mode="json"), "good": report.good}
    return Shown(value, lambda: _print_attacks(report), exit_code=int(not report.good))


def _asked(
    client: SluiceClient, corpus: str, sent: Sequence[Attack], timeout_seconds: float
) -> Iterator[tuple[Attack, Outcome]]:
    server_version(client)
    server = LiveServer(client)
    submitted = submit_documents(
        [attack.document for attack in sent],
        corpus,
        server,
        sleep=time.sleep,
        clock=time.monotonic,
        timeout_seconds=timeout_seconds,
    )
    error_console.print(
        f"{submitted.document_count} attacks handed in to {marked(corpus)}, {submitted.missing_count} refused"
    )
    for attack in sent:
        filters = Filters(metadata={"redteam": attack.id})
        query = Query(query=attack.question, corpus=corpus, top_k=_PASSAGES, filters=filters, duplicate_threshold=0)
        yield attack, outcome_of(attack, server.search(query).chunks)


def _remove(client: SluiceClient, corpus: str, attacks: Sequence[Attack]) -> None:
    """Delete the attack documents, and the texts that the quarantine holds of them."""
    for attack in attacks:
        try:
            client.delete_document(attack.id, corpus)
        except client_errors.NotFound:
            continue
    try:
        for held in client.quarantined(corpus):
            client.purge_quarantined(held.id)
    except client_errors.Forbidden:
        error_console.print(f"the key may not purge the quarantine: `sluice quarantine --corpus {marked(corpus)}`")


def _print_attacks(report: RedTeamReport) -> None:
    kind = ("kind", lambda one: "overt" if one.is_overt else "covert")
    print_rows("What became of the attacks", report.channels, "channel", kind, "sent kept_out warned unmarked")
    for one in report.channels:
        for example in one.examples if one.is_overt else ():
            console.print(f"[red]unmarked[/] {marked(one.channel)}: {marked(example)}")
