"""`sluice eval retrieval` from the command line to a real instance and back, and how it fails without one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.retrieval import TEXT_STRATEGIES, Strategy
from sluice.evaluation.report import write_report
from sluice.evaluation.retrieval.report import read_retrieval_report
from tests.support.evaluation_samples import report
from tests.support.instance import Instance

pytestmark = pytest.mark.timeout(240)

Sluice = Callable[..., Result]
DOCUMENTS = {
    "lease": ("Leases", "A lease is renewed by a heartbeat. A lease that runs out frees the event."),
    "blob": ("Blobs", "A blob is kept once, under the hash of its content, and compressed."),
    "gate": ("", "The gate weighs coverage and freshness before it searches the web."),
}
QUESTIONS = {"q1": ("how is a lease renewed", "lease"), "q2": ("what does the gate weigh", "gate")}


@pytest.fixture
def sluice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    """The command line in this process, of an instance that does not run."""
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_HTTP_PORT", "1")
    return lambda *arguments: CliRunner().invoke(app, list(arguments), prog_name="sluice")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny collection; one question has no relevant document."""
    folder = tmp_path_factory.mktemp("collections") / "tiny"
    folder.mkdir()
    documents = [{"_id": key, "title": title, "text": text} for key, (title, text) in DOCUMENTS.items()]
    questions = [{"_id": key, "text": text} for key, (text, _) in QUESTIONS.items()] + [{"_id": "q3", "text": "x"}]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, questions)))
    judged = "\n".join(f"{key}\t{answer}\t1" for key, (_, answer) in QUESTIONS.items())
    (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}\n")
    return folder


@pytest.fixture(scope="module")
def evaluated(offline: Instance, collection: Path) -> Instance:
    """An instance that the collection was evaluated on, which ingests it."""
    done = offline.sluice("eval", str(collection))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "eval-tiny" in done.stdout
    assert "1 questions have no relevant document" in done.stdout
    return offline


def asked(instance: Instance, *arguments: str) -> Any:
    done = instance.sluice("eval", *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_collection_is_ingested_asked_by_every_strategy_and_reported(evaluated: Instance) -> None:
    found = read_retrieval_report(evaluated.folder / "reports" / "retrieval-metrics.json")
    assert tuple(found.strategies) == TEXT_STRATEGIES
    assert (found.case_count, found.unjudged_count, found.fed.document_count if found.fed else 0) == (2, 1, 3)
    assert (found.subject.corpus, len(found.generations)) == ("eval-tiny", 1)
    for strategy, part in found.strategies.items():
        best = dict.fromkeys(part.means, 1.0) | {"precision@5": 1 / 5, "precision@10": 1 / 10}
        assert {name: mean.mean for name, mean in part.means.items()} == best, strategy
        assert part.round_trip_time.p95_ms >= part.index_time.p50_ms > 0
    assert found.strategies[Strategy.HYBRID].fusion != "none"
    assert (found.recall_at_10, found.mrr, found.poisoned_blocked) == (1.0, 1.0, 0)
    assert found.avg_trust_score == pytest.approx(0.9, abs=0.01), "what an operator hands in is the operator's own"
    assert found.cache_hit_rate is not None


def test_the_same_corpus_is_asked_again_without_ingesting_and_differs_in_nothing(
    evaluated: Instance, collection: Path
) -> None:
    again = asked(evaluated, str(collection), "--no-ingest", "-o", "again.json", "--strategy", "bm25")
    assert (again["fed"], list(again["strategies"]), again["report"]) == (None, ["bm25"], "again.json")
    compared = evaluated.sluice("eval", "compare", "reports/retrieval-metrics.json", "again.json")
    assert compared.returncode == 0, compared.stdout + compared.stderr
    assert "only in one of the reports: hybrid, vector" in compared.stdout


def test_the_weights_of_a_model_are_fitted_to_the_questions_and_those_of_the_local_one_are_told(
    evaluated: Instance,
) -> None:
    asked_of = {"lease": "how is a lease renewed", "blob": "where is a blob kept", "gate": "what does the gate weigh"}
    lines = [
        {"id": f"{name}{turn}", "query": f"{question} ({turn})", "relevant": [name]}
        for name, question in asked_of.items()
        for turn in range(8)
    ]
    (evaluated.folder / "fit.jsonl").write_text("\n".join(map(json.dumps, lines)))
    options = ("fit.jsonl", "-c", "eval-tiny", "-o", "fit.json", "--fit")
    fit = asked(evaluated, *options)["fit"]
    assert (fit["fusion"]["ndcg"], fit["written"]) == (1.0, None)
    told = evaluated.sluice("eval", *options)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "built in, not written" in told.stdout


def test_cases_may_judge_chunks_and_what_is_missed_is_told(evaluated: Instance) -> None:
    body = {"query": "blob hash", "corpus": "eval-tiny", "strategy": "bm25"}
    chunk_id = evaluated.http.post("/v1/query", json=body).json()["chunks"][0]["chunk_id"]
    cases = evaluated.folder / "cases.jsonl"
    lines = [
        {"id": "chunk", "query": "where is a blob kept", "relevant": [chunk_id]},
        {"id": "lost", "query": "how is a lease renewed", "relevant": ["never-ingested"]},
        {
            "id": "filtered",
            "query": "how is a lease renewed",
            "relevant": {"gate": 1},
            "filters": {"document_ids": ["gate"]},
        },
    ]
    cases.write_text("\n".join(map(json.dumps, lines)))
    found = asked(evaluated, str(cases), "-c", "eval-tiny", "-o", "cases.json", "--misses")
    hybrid = found["strategies"]["hybrid"]
    assert hybrid["means"]["recall@1"]["mean"] == pytest.approx(2 / 3)
    assert [(miss["id"], miss["relevant"]) for miss in hybrid["misses"]] == [("lost", {"never-ingested": None})]
    assert hybrid["misses"][0]["instead"][0]["name"] == "lease"
    told = evaluated.sluice("eval", str(cases), "-c", "eval-tiny", "--misses", "--questions", "3").stdout
    assert "never-ingested beyond 100" in told


def test_a_corpus_that_is_not_there_is_told(evaluated: Instance) -> None:
    cases = evaluated.folder / "some.jsonl"
    cases.write_text('{"query": "x", "relevant": ["a"]}')
    done = evaluated.sluice("eval", str(cases), "-c", "nothing-here")
    assert done.returncode == 3, done.stderr
    assert "nothing-here" in done.stderr
    assert not (evaluated.folder / "reports" / "some.json").exists()


def test_without_a_server_the_way_to_one_is_told_and_no_report_is_left(sluice: Sluice, tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text('{"query": "x", "relevant": ["a"]}')
    result = sluice("eval", "cases.jsonl")
    assert (result.exit_code, result.stdout) == (6, "")
    assert "sluice up" in result.stderr
    assert not (tmp_path / "reports").exists()


def test_a_malformed_case_is_refused_by_line_and_field(sluice: Sluice, tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text('{"query": "x", "relevant": ["a"]}\n{"query": "y", "relevent": ["a"]}')
    result = sluice("eval", "cases.jsonl", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["field"]) == (2, "cases.jsonl:2")
    assert "relev" in told["message"]


def test_a_planted_drop_of_more_than_a_twentieth_leaves_with_one_and_equal_reports_with_zero(
    sluice: Sluice, tmp_path: Path
) -> None:
    write_report(report([1] * 50), tmp_path / "a.json")
    write_report(report([1] * 47 + [None] * 3), tmp_path / "b.json")
    equal, dropped = sluice("eval", "compare", "a.json", "a.json"), sluice("eval", "compare", "a.json", "b.json")
    assert (equal.exit_code, dropped.exit_code) == (0, 1), equal.output + dropped.output
    assert "dropped by more than 5.0%: hybrid nDCG@10 1.0000 → 0.9400" in dropped.stdout
    allowed = sluice("eval", "compare", "a.json", "b.json", "--max-drop", "0.1", "--json")
    assert (allowed.exit_code, json.loads(allowed.stdout)["ok"]) == (0, True)


def test_reports_of_different_questions_are_refused(sluice: Sluice, tmp_path: Path) -> None:
    write_report(report([1]), tmp_path / "a.json")
    write_report(report([1, 1]), tmp_path / "b.json")
    result = sluice("eval", "compare", "a.json", "b.json")
    assert result.exit_code == 5
    assert "different questions" in result.stderr.replace("\n", " ")
