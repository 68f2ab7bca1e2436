"""Metrics of what became of runs: the figures of the evaluator's latest windows, by profile and plan.

A figure is NaN where no run tells it, so that nothing is taken for nought that is not known. `bound` is `estimate`,
`low` or `high`: the figure and the ends of its 95 % interval.
"""

from __future__ import annotations

from sluice.otel.metrics.registry import gauge

EVALUATION_RUNS = gauge("sluice_evaluation_runs", "Runs in the evaluator's latest windows.", "profile", "plan")
EVALUATION_JUDGED = gauge(
    "sluice_evaluation_judged_runs", "Those of them that something was said of.", "profile", "plan"
)
EVALUATION_JUDGED_SHARE = gauge(
    "sluice_evaluation_judged_share", "Judged runs of all runs, from 0 to 1.", "profile", "plan"
)
EVALUATION_SATISFACTION = gauge(
    "sluice_evaluation_satisfaction", "Mean satisfaction of the judged runs, from 0 to 1.", "profile", "plan", "bound"
)
EVALUATION_USD_PER_SUCCESS = gauge(
    "sluice_evaluation_usd_per_success",
    "US dollars per successful task: cost of the judged runs through the sum of their satisfaction.",
    "profile",
    "plan",
    "bound",
)
EVALUATION_FRESHNESS_GAIN_SECONDS = gauge(
    "sluice_evaluation_freshness_gain_seconds",
    "How much younger the cited text is by the runs' own crawls, mean.",
    "profile",
    "plan",
    "bound",
)
EVALUATION_PRECISION_AT_K = gauge(
    "sluice_evaluation_precision_at_k",
    "Share of the cited passages that were used, from 0 to 1.",
    "profile",
    "plan",
    "bound",
)
EVALUATION_CRAWL_SUCCESS_RATE = gauge(
    "sluice_evaluation_crawl_success_rate",
    "Share of the pages asked for that were read, from 0 to 1.",
    "profile",
    "plan",
    "bound",
)
EVALUATION_EXTERNAL_CALLS = gauge(
    "sluice_evaluation_external_calls", "Searches and pages per run, mean.", "profile", "plan"
)
EVALUATION_TOKEN_SPEND = gauge(
    "sluice_evaluation_token_spend", "Tokens per run, embedded and answered with, mean.", "profile", "plan"
)
EVALUATION_LATENCY_SECONDS = gauge(
    "sluice_evaluation_latency_seconds",
    "From acceptance to the end of a run: quantiles 0.5 and 0.95.",
    "profile",
    "plan",
    "quantile",
)
EVALUATION_BEHIND_SECONDS = gauge(
    "sluice_evaluation_behind_seconds", "How much of the past the evaluator still has to read, after a start."
)
