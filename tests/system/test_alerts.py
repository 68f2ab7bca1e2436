"""Each alert fires on made-up series that deserve it and on no others, as Prometheus' own promtool evaluates it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.prometheus import program
from tests.support.repository import REPOSITORY

ALERTS = REPOSITORY / "deploy" / "alerts.yaml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
}
HOUR = 60
"""Of the made-up series, which have a value for each minute."""


def up_to(value: str) -> str:
    """A series that stays at `value` for six hours, or grows by what follows a `+`."""
    return value if "x" in value else f"{value}x{6 * HOUR}"


@dataclass(frozen=True)
class Case:
    """Series (name to values of a minute each) on which an alert fires at `minute`, and on which it does not."""

    fires: dict[str, str]
    quiet: dict[str, str]
    minute: int = 40


GATE_I = 'sluice_retrieval_gates_total{gate="gate-i-source-trust",outcome="%s"}'
GATE_P = 'sluice_retrieval_gates_total{gate="gate-p-retrieval-poisoning",outcome="%s"}'


def buckets(name: str, quick: str, slow: str, bounds: tuple[str, str], labels: str = "") -> dict[str, str]:
    """A histogram whose observations fall below the first bound (`quick` a minute) or below the second (`slow`)."""
    both = f"0+{int(quick) + int(slow)}"
    inside = f",{labels}" if labels else ""
    return {
        f'{name}_bucket{{le="{bounds[0]}"{inside}}}': f"0+{quick}",
        f'{name}_bucket{{le="{bounds[1]}"{inside}}}': both,
        f'{name}_bucket{{le="+Inf"{inside}}}': both,
    }


QUERY, INGEST, CITED = (
    "sluice_query_seconds",
    "sluice_crawl_ingest_latency_seconds",
    "sluice_cited_document_age_seconds",
)


def shares(figure: str, having: str, lacking: str, judged: str = "80+0") -> dict[str, str]:
    """One figure of both arms of a flag that a share of the runs has."""
    arms = {"with": having, "without": lacking}
    named = 'sluice_flag_share{flag="graph",arm="%s",figure="%s"}'
    return {named % (arm, shown): value for arm in arms for shown, value in ((figure, arms[arm]), ("judged", judged))}


DAYS_7 = {'sluice_cited_document_age_target_seconds{profile="marketing"}': "604800+0"}
WATCHED = (
    'sluice_gate_decision_total{plan_type="skip"}',
    'sluice_stage_ready{stage="gate"}',
    "sluice_crawler_success_rate",
    GATE_I % "passed",
    'sluice_budget_used_ratio{scope="day",unit="usd"}',
    'sluice_budget_limit_usd{scope="day"}',
)

CASES: dict[str, Case] = {
    "EventsWait": Case(
        {'sluice_stage_oldest_ready_seconds{stage="crawl"}': "90+0"},
        {'sluice_stage_oldest_ready_seconds{stage="crawl"}': "30+0"},
    ),
    "StageStandsStill": Case(
        {'sluice_stage_ready{stage="embed"}': "3+0", 'sluice_events_handled_total{stage="embed"}': "7+0"},
        {'sluice_stage_ready{stage="embed"}': "3+0", 'sluice_events_handled_total{stage="embed"}': "7+1"},
    ),
    "DeadLetters": Case(
        {'sluice_dead_letters_total{stage="crawl",reason="poison"}': f"_x30 1+0x{HOUR}"},  # its very first
        {'sluice_dead_letters_total{stage="crawl",reason="poison"}': "1+0"},
    ),
    "StagePaused": Case(
        {'sluice_stage_pauses_total{stage="search"}': f"0x30 1+0x{HOUR}"},
        {'sluice_stage_pauses_total{stage="search"}': "1+0"},
    ),
    "EventsRepublished": Case(
        {'sluice_reconciler_republished_total{cause="lease_expired"}': "0+120"},
        {'sluice_reconciler_republished_total{cause="lease_expired"}': "0+6"},
    ),
    "QueriesSlow": Case(buckets(QUERY, "50", "50", ("0.25", "2.5")), buckets(QUERY, "99", "1", ("0.1", "2.5"))),
    "SnapshotFallback": Case(
        {"sluice_snapshot_fallbacks_total": f"0x30 1+0x{HOUR}"}, {"sluice_snapshot_fallbacks_total": "1+0"}
    ),
    "PoisonServed": Case({GATE_P % "failed": f"0x30 1+0x{HOUR}"}, {GATE_P % "failed": "1+0", GATE_P % "passed": "0+9"}),
    "SourcesDistrusted": Case(
        {GATE_I % "failed": "0+3", GATE_I % "passed": "0+7"}, {GATE_I % "failed": "0+1", GATE_I % "passed": "0+9"}
    ),
    "CrawlIngestSlow": Case(
        buckets(INGEST, "5", "5", ("60.0", "300.0")), buckets(INGEST, "99", "1", ("15.0", "300.0"))
    ),
    "CitedDocumentsOld": Case(
        DAYS_7 | buckets(CITED, "1", "9", ("604800.0", "2592000.0"), 'profile="marketing"'),
        DAYS_7 | buckets(CITED, "9", "1", ("86400.0", "2592000.0"), 'profile="marketing"'),
        minute=3 * HOUR,
    ),
    "GateStepsBack": Case(
        {'sluice_self_defence_active{name="satisfaction",profile="default",step="previous_configuration"}': "1+0"},
        {'sluice_self_defence_active{name="satisfaction",profile="default",step="previous_configuration"}': "0+0"},
    ),
    "RolloutStopped": Case(
        {'sluice_gate_rollout_verdicts_total{verdict="stop"}': f"_x30 1+0x{HOUR}"},
        {'sluice_gate_rollout_verdicts_total{verdict="promote"}': f"_x30 1+0x{HOUR}"},
    ),
    "GateModelUnreadable": Case(
        {"sluice_gate_model_failures_total": f"0x30 1+0x{HOUR}"}, {"sluice_gate_model_failures_total": "1+0"}
    ),
    "CorpusChangedWithoutRun": Case(
        {'sluice_corpus_changes_unexplained_total{corpus="docs"}': f"_x30 1+0x{HOUR}"},
        {'sluice_corpus_changes_unexplained_total{corpus="docs"}': "1+0"},
    ),
    "SnapshotPushFails": Case(
        {'sluice_snapshot_pushes_total{outcome="failed"}': f"0x30 1+0x{HOUR}"},
        {'sluice_snapshot_pushes_total{outcome="failed"}': "0+0", 'sluice_snapshot_pushes_total{outcome="ok"}': "0+2"},
    ),
    "HttpErrors": Case(
        {'sluice_http_requests_total{status="500"}': "0+1", 'sluice_http_requests_total{status="200"}': "0+9"},
        {'sluice_http_requests_total{status="404"}': "0+9", 'sluice_http_requests_total{status="200"}': "0+1"},
    ),
    "LeftAlone": Case(
        {'sluice_breakers_opened_total{what="host"}': "0+1"}, {'sluice_breakers_opened_total{what="host"}': "0+0.05"}
    ),
    "RerankFails": Case(
        {'sluice_reranks_total{outcome="failed"}': "0+6", 'sluice_reranks_total{outcome="ok"}': "0+4"},
        {'sluice_reranks_total{outcome="failed"}': "0+0", 'sluice_reranks_total{outcome="ok"}': "0+4"},
    ),
    "FlagShareWorse": Case(shares("satisfaction", "0.75+0", "0.8+0"), shares("satisfaction", "0.77+0", "0.8+0")),
    "CrawlFails": Case({"sluice_crawler_success_rate": "0.4+0"}, {"sluice_crawler_success_rate": "0.9+0"}),
    "ExternalSearchErrorRate": Case(
        {'sluice_external_search_error_rate{provider="brave"}': "0.5+0"},
        {'sluice_external_search_error_rate{provider="brave"}': "0.1+0"},
    ),
    "BudgetNearlySpent": Case(
        {'sluice_budget_used_ratio{scope="day",unit="usd"}': "0.9+0"},
        {'sluice_budget_used_ratio{scope="day",unit="usd"}': "0.5+0"},
    ),
    "BudgetSpent": Case(
        {'sluice_budget_used_ratio{scope="day",unit="pages"}': "1+0"},
        {'sluice_budget_used_ratio{scope="day",unit="pages"}': "0.9+0"},
    ),
    "SearchCost": Case(
        {'sluice_search_cost_usd_total{provider="brave"}': "0+0.03", 'sluice_budget_limit_usd{scope="day"}': "5+0"},
        {  # the same cost under a ceiling that an operator has raised
            'sluice_search_cost_usd_total{provider="brave"}': "0+0.03",
            'sluice_budget_limit_usd{scope="day"}': "50+0",
        },
        minute=2 * HOUR,
    ),
    "QuarantineGrows": Case(
        {'sluice_quarantined_chunks_total{rule="hidden"}': "0+1"},
        {'sluice_quarantined_chunks_total{rule="hidden"}': "0+0.1"},
        minute=2 * HOUR,
    ),
    "QuarantineWaits": Case(
        {"sluice_quarantine_held": f"4x{80 * HOUR}"}, {"sluice_quarantine_held": f"0x{80 * HOUR}"}, minute=75 * HOUR
    ),
    "BackupOverdue": Case(
        {"sluice_backup_verified_timestamp_seconds": f"0x{30 * HOUR}"},
        {"sluice_backup_verified_timestamp_seconds": f"0x{20 * HOUR} 72000x{10 * HOUR}"},
        minute=28 * HOUR,
    ),
    "GraphFarBehind": Case(
        {'sluice_graph_behind{what="documents"}': "7+0", 'sluice_graph_behind{what="cypher"}': "7+0"},
        {  # it caught up once, and the file of the Cypher engine may wait
            'sluice_graph_behind{what="documents"}': f"7x50 0 7x{5 * HOUR}",
            'sluice_graph_behind{what="cypher"}': "7+0",
        },
        minute=90,
    ),
    "GraphDamaged": Case(
        {'sluice_graph_abstained_total{reason="damaged"}': f"_x30 1+0x{HOUR}"},
        {
            'sluice_graph_abstained_total{reason="damaged"}': "1+0",
            'sluice_graph_abstained_total{reason="absent"}': "0+5",
        },
    ),
    "ProcessUnreachable": Case({'up{job="sluice",instance="a"}': "0+0"}, {'up{job="sluice",instance="a"}': "1+0"}),
    "SeriesAbsent": Case(dict.fromkeys(WATCHED[1:], "1+0"), dict.fromkeys(WATCHED, "1+0")),
    "SpansLost": Case({"sluice_span_store_failures_total": "0+1"}, {"sluice_span_store_failures_total": "3+0"}),
}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=REPOSITORY
    )


def firing(name: str, series: dict[str, str], minute: int, *, expected: bool) -> dict[str, Any]:
    """A promtool test: whether an alert fires at `minute` of `series`."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1}] if expected else []
    expression = f'group by (alertname) (ALERTS{{alertname="{name}",alertstate="firing"}})'
    return {
        "name": f"{name} {'fires' if expected else 'does not fire'}",
        "interval": "1m",
        "input_series": [{"series": one, "values": up_to(values)} for one, values in series.items()],
        "promql_expr_test": [{"expr": expression, "eval_time": f"{minute}m", "exp_samples": samples}],
    }


def outcome_of(name: str, tests: list[dict[str, Any]], folder: Path) -> subprocess.CompletedProcess[str]:
    """What promtool finds with this alert alone: with all of them it evaluates each for every minute."""
    file, alone = folder / "tests.yaml", folder / "alone.yaml"
    alone.write_text(yaml.safe_dump({"groups": [{"name": "alone", "rules": [RULES[name]]}]}))
    file.write_text(yaml.safe_dump({"rule_files": [str(alone)], "evaluation_interval": "1m", "tests": tests}))
    return promtool("test", "rules", str(file))


def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    checked = promtool("check", "rules", str(ALERTS))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout


def test_every_alert_has_series_on_which_it_fires_and_series_on_which_it_does_not() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_an_alert_fires_where_it_should_and_nowhere_else(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    tests = [
        firing(name, case.fires, case.minute, expected=True),
        firing(name, case.quiet, case.minute, expected=False),
    ]
    done = outcome_of(name, tests, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_check_that_expects_a_silent_alert_to_fire_fails(tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    quiet = firing("CrawlFails", {"sluice_crawler_success_rate": "1+0"}, 40, expected=True)
    assert outcome_of("CrawlFails", [quiet], tmp_path).returncode != 0


@pytest.mark.parametrize("name", sorted(RULES))
def test_an_alert_says_how_bad_it_is_what_is_the_matter_and_what_to_do(name: str) -> None:
    rule = RULES[name]
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "action"}


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (shares("p95_seconds", "1.1+0", "1+0"), True),
        (shares("p95_seconds", "1.04+0", "1+0"), False),
        (shares("precision_at_k", "0.4+0", "0.5+0"), True),
        (shares("precision_at_k", "0.4+0", "0.5+0", judged="49+0"), False),
        (shares("satisfaction", "0.4+0", "NaN+0"), False),
    ],
)
def test_a_share_alerts_for_each_figure_and_only_once_enough_runs_were_judged(
    series: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    done = outcome_of("FlagShareWorse", [firing("FlagShareWorse", series, 40, expected=expected)], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
