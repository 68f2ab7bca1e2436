"""`sluice eval qa`, `sessions` and `deploys`: answers judged by hand, sessions asked again of another instance, and two
deploys against the baseline."""

from __future__ import annotations

import getpass
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sluice.cli.command import Shown, on_disk, over_http, print_rows
from sluice.cli.connection import wrong
from sluice.cli.output import say
from sluice_client import SluiceClient, models
from sluice_client.errors import Conflict, SluiceError

if TYPE_CHECKING:
    from sluice.contracts.gate import GateRequested
    from sluice.evaluation.session_replay import Outcome
    from sluice.workers.context import Context

LOG = Path("reports/manual-qa.jsonl")
REPLAY = Path("reports/session-replay.json")
DEADLINE_SECONDS = 120.0
_OUTCOMES = {"grounded": "success", "hallucinated": "failure", "unanswered": "unknown"}


@over_http
def qa(
    client: SluiceClient,
    run: str | None = None,
    verdict: Literal["grounded", "hallucinated", "unanswered"] | None = None,
    note: str = "",
    runs: int = 20,
    corpus: str | None = None,
    log: Path = LOG,
) -> Shown:
    """Log a person's verdict on an answer; without a run, list what is to judge and the hallucinated share so far.

    The verdict is feedback on the run too. Exits with 1 where more than 2 % of the judged answers are hallucinated.
    """
    from sluice.evaluation import manual_log

    if (run is None) is not (verdict is None):
        raise wrong("verdict", "goes with a run", "give both, or neither for the list")
    if run is not None:
        view = client.run(run)
        judged = manual_log.JudgedAnswer(
            at=datetime.now(UTC),
            run_id=run,
            query=view.query or "",
            profile=view.decision.profile if view.decision else "",
            verdict=verdict,
            by=getpass.getuser(),
            note=note,
            chunk_ids=tuple(one.chunk_id for one in (view.answer.citations if view.answer else ())),
        )
        with suppress(Conflict):  # feedback counts once; the log has every verdict, and the latest counts
            client.feedback(run, outcome=_OUTCOMES[judged.verdict], signal="user_acceptance", note=note)
        manual_log.append(judged, log)
    logged = manual_log.read(log)
    found, known = manual_log.summarise(logged), {one.run_id for one in logged}
    listed = [] if run else client.runs(kind="gate", status="finished", corpus=corpus, limit=runs).data
    open_runs = [one for one in listed if one.run_id not in known]

    def draw() -> None:
        if open_runs:
            print_rows("to judge", open_runs, "run=run_id created=created_at", ("question", lambda one: one.query))
        share = "–" if found.share is None else f"{found.share.estimate:.1%} (up to {found.share.high:.1%})"
        say(f"{found.judged} judged, {found.hallucinated} hallucinated: {share}; at most 2 % are allowed")

    value = {**found.model_dump(mode="json"), "to_judge": [one.run_id for one in open_runs]}
    return Shown(value, draw, exit_code=int(found.judged > 0 and not found.is_well))


@on_disk
def sessions(
    context: Context,
    target: str,
    target_key: str | None = None,
    since: datetime = "7d",  # type: ignore[assignment]
    session: str | None = None,
    corpus: str | None = None,
    runs: int = 100,
    output: Path = REPLAY,
) -> Shown:
    """Ask recorded sessions again of another instance, in order, and compare plans, sources and time.

    Exits with 1 where runs failed, over 5 % of the answers lost their sources, citations name no source, or p95 is over
    1.2 times the former.
    """
    from sluice.evaluation.report import write_report
    from sluice.workers.service.learning.sessions import replay_sessions

    with SluiceClient(target, target_key) as client:
        found = replay_sessions(context, partial(_ask, client), since, session=session, corpus=corpus, most=runs)
    write_report(found, output)

    def draw() -> None:
        plans = ("plan", lambda one: f"{one.plan} -> {one.new_plan}" if one.plan != one.new_plan else one.plan)
        sources = ("sources", lambda one: f"{one.cited} -> {one.new_cited}")
        seconds = ("s", lambda one: f"{one.seconds or 0:.2f} -> {one.new_seconds or 0:.2f}")
        question = ("question", lambda one: one.query[:60])
        print_rows("replayed", found.replayed, "session run=run_id", question, plans, sources, seconds, "failure")
        kept = "–" if found.kept is None else f"{found.kept:.0%}"
        say(f"{found.sessions} sessions, {found.runs} runs, {found.changed_plans} other plans, {kept} of sources kept")
        say("; ".join(found.problems) or "nothing speaks against it")
        say(f"report: {output}")

    return Shown({**found.model_dump(mode="json"), "problems": found.problems}, draw, int(bool(found.problems)))


def _ask(client: SluiceClient, request: GateRequested, corpus: str) -> tuple[str, Outcome]:
    from sluice.contracts.base import fields_of
    from sluice.contracts.gate import GateOptions
    from sluice.contracts.index import Answer
    from sluice.contracts.plan import Plan
    from sluice.evaluation.session_replay import Outcome

    options = GateOptions(**fields_of(GateOptions, request))
    fields = options.model_dump(mode="json", exclude_defaults=True, exclude={"query"})
    began = time.monotonic()
    try:
        run = client.gate(request.query, corpus, wait=True, deadline_seconds=DEADLINE_SECONDS, **fields)
    except SluiceError as error:
        return "", Outcome(None, None, None, str(error))
    seconds = time.monotonic() - began
    if not isinstance(run, models.RunView) or run.answer is None:
        return run.run_id, Outcome(None, None, seconds, f"no answer within {DEADLINE_SECONDS:.0f} s")
    answer = Answer.model_validate_json(run.answer.model_dump_json(exclude_unset=True))
    return run.run_id, Outcome(Plan(str(run.decision.plan)) if run.decision else None, answer, seconds)


@on_disk
def deploys(context: Context, baseline_until: datetime, first: datetime, second: datetime) -> Shown:
    """Compare the runs of two deploys with those of the baseline.

    Exits with 1 where both are slower than 1.2 times the baseline's p95, or both do worse by more than 5 points.
    """
    from sluice.workers.service.learning.phases import compare_deploys

    if not baseline_until <= first < second:
        raise wrong("first", "is not between the baseline and the second deploy", "give the moments in order")
    found = compare_deploys(context, baseline_until, (first, second), datetime.now(UTC))

    def draw() -> None:
        print_rows("deploys", found.checks, "deploy=name outcome measured needed")
        say(f"worse in both: {', '.join(found.regressions)}" if found.regressions else "no regression in both")

    value = {**found.model_dump(mode="json"), "regressions": found.regressions}
    return Shown(value, draw, exit_code=int(bool(found.regressions)))
