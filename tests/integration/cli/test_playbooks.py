"""`sluice eval qa`, `sessions` and `deploys` on a ledger with runs, and the sums behind them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli.main import app
from sluice.contracts.api import FeedbackRequest, GateRequest
from sluice.contracts.errors import InvalidInput
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.manual_log import JudgedAnswer, read, summarise
from sluice.evaluation.phases import check_deploys
from sluice.evaluation.run_totals import RunTotals
from sluice.evaluation.session_replay import ReplayedRun
from sluice.evaluation.session_replay import summarise as summarise_replay
from tests.support.in_process import Instance, MakeInstance
from tests.support.served import served

QUESTION = "How often does the holder renew a lease?"
TEXT = "A lease is renewed by its holder every five seconds. One that is not is free after fifteen."


@pytest.fixture
def instance(make_instance: MakeInstance, monkeypatch: pytest.MonkeyPatch) -> Instance:
    instance = make_instance()
    instance.adds(TEXT)
    instance.works("chunk", "embed", "index")
    monkeypatch.setenv("SLUICE_DATA_DIR", str(instance.context.settings.data_dir))
    return instance


def asks(instance: Instance, session: str | None = None) -> str:
    run_id = instance.service.ask(GateRequest(query=QUESTION, session_id=session)).run_id
    instance.works("query", "gate", "query")
    return run_id


def sluice(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout + done.stderr


def test_a_person_logs_verdicts_which_are_feedback_too(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, log = asks(instance), str(tmp_path / "reports" / "qa.jsonl")
    with served(instance.context.settings) as url:
        monkeypatch.setenv("SLUICE_URL", url)
        code, told = sluice("eval", "qa", "--log", log, "--json")
        assert (code, json.loads(told)["to_judge"]) == (0, [run_id])
        code, told = sluice("eval", "qa", run_id, "--verdict", "hallucinated", "--note", "it says ten", "--log", log)
        assert code == 1, "one of one is more than 2 %"
        assert "1 judged, 1 hallucinated" in told
        code, told = sluice("eval", "qa", run_id, "--verdict", "grounded", "--log", log, "--json")
        assert (code, json.loads(told)["hallucinated"]) == (0, 0), "the second thought counts"
        code, told = sluice("eval", "qa", run_id, "--log", log)
        assert code == 2
        assert "verdict" in told
        assert json.loads(sluice("eval", "qa", "--log", log, "--json")[1])["to_judge"] == []
    logged = read(Path(log))
    assert [(one.verdict, one.note, one.query) for one in logged] == [
        ("hallucinated", "it says ten", QUESTION),
        ("grounded", "", QUESTION),
    ]
    assert logged[0].chunk_ids
    instance.works("gate")
    told = json.loads(sluice("eval", "phase", "2", "--qa", log, "--json")[1])
    assert told["checks"][-1] == {
        "name": "hallucinated share of the manual log",
        "outcome": "passed",
        "measured": "0",
        "needed": "at most 0.02",
    }


def test_a_damaged_line_of_the_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"verdict": "splendid"}\n')
    with pytest.raises(InvalidInput, match="log:1"):
        read(tmp_path / "log")


def test_two_people_may_judge_a_run_and_two_percent_is_the_limit() -> None:
    def verdict(run: int, by: str, verdict: str) -> JudgedAnswer:
        facts = {"at": "2026-01-01T00:00:00Z", "run_id": f"run_{run}", "query": "q", "profile": "default"}
        return JudgedAnswer.model_validate({**facts, "verdict": verdict, "by": by})

    good = [verdict(number, "ann", "grounded") for number in range(49)]
    assert summarise([*good, verdict(1, "bob", "hallucinated")]).is_well
    assert not summarise([*good[:40], verdict(1, "bob", "hallucinated")]).is_well
    assert not summarise([]).is_well


@contextmanager
def working(instance: Instance) -> Iterator[str]:
    """Where an instance answers whose stages work all the time."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.05):
            instance.works("query", "gate", "query")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with served(instance.context.settings) as url:
            yield url
    finally:
        is_over.set()
        thread.join()


def test_whole_sessions_are_asked_again_of_another_instance(instance: Instance, tmp_path: Path) -> None:
    ids = [asks(instance, "s1"), asks(instance, "s1"), asks(instance, "s2"), asks(instance)]
    with working(instance) as url:
        output = tmp_path / "replay.json"
        code, told = sluice("eval", "sessions", url, "--output", str(output), "--json")
        found = json.loads(told)
        assert (code, found["problems"]) == (0, []), told
        assert [one["run_id"] for one in found["replayed"]] == ids, "its own new runs are none of those"
        assert (found["sessions"], found["runs"], found["failed"], found["kept"]) == (3, 4, 0, 1.0)
        assert json.loads(output.read_text())["runs"] == 4
        code, told = sluice(
            "eval", "sessions", url, "--session", "s1", "--runs", "2", "--output", str(output), "--json"
        )
        assert [one["session"] for one in json.loads(told)["replayed"]] == ["s1", "s1"]
    code, told = sluice("eval", "sessions", url, "--runs", "1", "--output", str(output))
    assert code == 1
    assert "1 runs failed" in told, "nobody answers there any more"


def replayed(**facts: object) -> ReplayedRun:
    usual = {"session": "s", "run_id": "r", "new_run_id": "n", "query": "q", "plan": Plan.RETRIEVE, "kept": 1.0}
    usual |= {
        "new_plan": Plan.RETRIEVE,
        "cited": 2,
        "new_cited": 2,
        "without_source": 0,
        "seconds": 1,
        "new_seconds": 1,
    }
    return ReplayedRun.model_validate({**usual, **facts})


def test_what_speaks_against_another_instance_is_said() -> None:
    good = [replayed() for _ in range(40)]
    assert summarise_replay(good).problems == ()
    assert summarise_replay([*good, replayed(new_cited=0, kept=0)] * 2).problems == ()
    assert summarise_replay([*good[:10], replayed(new_cited=0)]).problems == (
        "1 of 11 answers have no sources any more",
    )
    assert summarise_replay([replayed(new_seconds=1.3) for _ in range(40)]).problems == (
        "p95 is 1.30 times the former",
    )
    assert summarise_replay([replayed(new_seconds=9) for _ in range(19)]).problems == (), "too few to tell"
    assert summarise_replay([*good, replayed(without_source=1)]).problems == ("1 citations name no source",)


def totals(milliseconds: float, satisfaction: float | None = None) -> RunTotals:
    signals = {} if satisfaction is None else {"task_satisfaction": satisfaction}
    usual = {"run_id": "r", "corpus": "docs", "profile": "default", "plan": "retrieve", "config_hash": "0" * 64}
    usual |= {"decided_at": "2026-01-01T00:00:00Z", "status": "finished", "finished_at": "2026-01-01T00:00:01Z"}
    found = RunTotals()
    for _ in range(30):
        found.add(RunOutcome.model_validate({**usual, "milliseconds": milliseconds, "signals": signals}))
    return found


def test_a_deploy_that_is_slow_is_a_regression_only_if_the_next_one_is_slow_too() -> None:
    baseline = totals(1_000, 0.9)
    once = check_deploys(baseline, {"a": totals(1_500, 0.9), "b": totals(1_000, 0.9)})
    assert [check.outcome for check in once.checks] == ["failed", "passed", "passed", "passed"]
    assert once.regressions == ()
    assert check_deploys(baseline, {"a": totals(1_500, 0.9), "b": totals(1_300, 0.8)}).regressions == ("p95",)
    worse = {"a": totals(900, 0.8), "b": totals(900, 0.84)}
    assert check_deploys(baseline, worse).regressions == ("satisfaction",)
    assert check_deploys(baseline, {"a": totals(900), "b": totals(900)}).regressions == ()


def test_deploys_are_told_apart_by_when_they_were_made(instance: Instance) -> None:
    run_id = asks(instance)
    instance.service.give_feedback(FeedbackRequest(run_id=run_id, outcome="success"))
    instance.works("gate")
    code, told = sluice("eval", "deploys", "2020-01-01", "2020-02-01", "2020-03-01", "--json")
    assert code == 0
    assert [check["outcome"] for check in json.loads(told)["checks"]] == ["no data"] * 4, "there is no baseline"
    code, told = sluice("eval", "deploys", "2020-01-01", "2020-03-01", "2020-02-01")
    assert code != 0
    assert "in order" in told
