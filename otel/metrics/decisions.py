"""Metrics of decisions and answers: the gate, what became of runs, flags, budgets, queries, profiles and trust.

An `EVALUATION_` figure is of the evaluator's latest windows, by profile and plan. It is NaN where no run tells it, so
that nothing is taken for nought that is not known. `bound` is `estimate`, `low` or `high`: the figure and the ends of
its 95 % interval.
"""

from __future__ import annotations

from sluice.otel.metrics.registry import (
    MICROSECONDS_TO_SECONDS,
    MILLISECONDS_TO_MINUTES,
    MILLISECONDS_TO_SECONDS,
    MINUTES_TO_YEARS,
    SHARES,
    counter,
    gauge,
    histogram,
)

GATE_DECISIONS = counter(
    "sluice_gate_decision_total",
    "Decisions by the plan carried out, the profile, the plan that the score alone chose, and the version of the model "
    "that decided (heuristic: the profile's weights).",
    "plan_type",
    "profile",
    "scored_plan",
    "gate_model_version",
)
GATE_VETOES = counter(
    "sluice_gate_vetoes_total", "Times that a rule or ceiling lowered a plan, by the veto's name.", "name"
)
JUDGE_CALLS = counter(
    "sluice_gate_judge_calls_total",
    "Times that the judge was asked or could not be, by its verdict, failed or no_budget.",
    "outcome",
)
SELF_DEFENCE_ACTIVE = gauge(
    "sluice_self_defence_active",
    'Whether a step back of the gate stands, by its name and profile ("*": for all); 1 while it does.',
    "name",
    "profile",
)
RESPONSE_JUDGED = histogram(
    "sluice_response_judged",
    "How far sampled responses of agents keep to their passages, from 0 to 1: groundedness, faithfulness.",
    SHARES,
    "figure",
)
RUN_SECONDS = histogram(
    "sluice_run_seconds", "From a run's acceptance to its end, by how it ended.", MILLISECONDS_TO_MINUTES, "status"
)
FEEDBACK = counter("sluice_feedback_total", "Feedback on answers, by outcome.", "outcome")
PRECISION_AT_K = histogram(
    "sluice_precision_at_k",
    "Share of an answer's k cited chunks that the agent says it used, from 0 to 1.",
    SHARES,
)
TOKEN_SPEND = counter(
    "sluice_token_spend_total",
    "Tokens spent: embedded by a model, or handed to agents as the context of answers.",
    "spent_on",
)
GATE_MODEL_VERSION = gauge(
    "sluice_gate_model_version",
    "Share of the runs that a learned model decides, by its version and the state of its rollout; 0 in its shadow.",
    "gate_model_version",
    "status",
)
GATE_MODEL_RUNS = counter(
    "sluice_gate_model_runs_total",
    "Decisions that a rolled out model had a part in, by its version, the run's arm, and whether the model's plan is "
    "the one that the profile's weights choose: same, other, or not_asked.",
    "gate_model_version",
    "arm",
    "compared",
)
GATE_MODEL_FAILURES = counter(
    "sluice_gate_model_failures_total", "Decisions that a model was to make, and could not be read for."
)
GATE_ROLLOUT_VERDICTS = counter(
    "sluice_gate_rollout_verdicts_total", "Verdicts on stages of canaries that changed, by kind.", "verdict"
)


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


FLAG_ENABLED = gauge("sluice_flag_enabled", "Whether the feature is on: 1 or 0.", "flag")
FLAG_CHANGES = counter(
    "sluice_flag_changes_total", "Times that a feature was seen to go on or off, by what it is since.", "flag", "to"
)
UNKNOWN_FLAGS = counter("sluice_unknown_flags_total", "Times that a flag was asked for that there is not.")
PURGED_DIRECTIVES = counter(
    "sluice_purged_directives_total", "Directives that were cancelled because their feature was switched off.", "flag"
)


BUDGET_LIMIT_USD = gauge(
    "sluice_budget_limit_usd", "The ceiling in US dollars of a run or of a UTC day; +Inf without one.", "scope"
)
BUDGET_USED_USD = gauge(
    "sluice_budget_used_usd", "US dollars that this UTC day has spent or reserved, by the ledger.", "scope"
)
BUDGET_USED_RATIO = gauge(
    "sluice_budget_used_ratio",
    "What this UTC day has spent or reserved as a share of its ceiling, by unit (usd, pages, bytes, tokens, "
    "milliseconds); 0 without a ceiling.",
    "scope",
    "unit",
)


FUSION_SECONDS = histogram(
    "sluice_retrieval_fusion_latency_seconds",
    "One search of a generation: both arms, their fusion, filters and budget; without embedding the query.",
    MICROSECONDS_TO_SECONDS,
)
QUERY_SECONDS = histogram(
    "sluice_query_seconds", "One query in a query worker, by strategy.", MILLISECONDS_TO_SECONDS, "strategy"
)
RETRIEVAL_GATES = counter(
    "sluice_retrieval_gates_total",
    "Retrievals by the outcome of each gate over them: source trust, poisoning.",
    "gate",
    "outcome",
)
SOURCE_TRUST = histogram("sluice_source_trust", "Mean trust of what a retrieval serves, from 0 to 1.", SHARES)
GUARD_DROPPED = counter("sluice_guard_dropped_total", "Passages that were found, and not served as they are blocked.")
REPLY_SECONDS = histogram(
    "sluice_reply_seconds", "From a direct query's dispatch to its reply, queue included.", MILLISECONDS_TO_SECONDS
)
DOCUMENT_AGE_SECONDS = histogram(
    "sluice_document_age_seconds",
    "Age of the documents cited in answers, by the gate's profile.",
    MINUTES_TO_YEARS,
    "profile",
)
STALE_CITATIONS = counter(
    "sluice_stale_citations_total",
    "Citations of answers whose passages were found changed or gone since, by which of the two.",
    "what",
)
CITED_AGE_SECONDS = histogram(
    "sluice_cited_document_age_seconds",
    "Time since the documents that answers cite were read or seen to be as they were, by the gate's profile.",
    MINUTES_TO_YEARS,
    "profile",
)
CITED_AGE_TARGET_SECONDS = gauge(
    "sluice_cited_document_age_target_seconds", "What the median of that age is to stay below, by profile.", "profile"
)
CORPUS_CHANGES_UNEXPLAINED = counter(
    "sluice_corpus_changes_unexplained_total",
    "Times that a corpus was found to hold something else although nothing was written to its journal.",
    "corpus",
)
SNAPSHOT_FALLBACKS = counter(
    "sluice_snapshot_fallbacks_total", "Times that a generation failed its verification and an older one was served."
)
SNAPSHOT_PUSHES = counter(
    "sluice_snapshot_pushes_total",
    "Published snapshots on their way to the object store: ok or failed.",
    "outcome",
)
SNAPSHOT_PUSHED_BYTES = counter("sluice_snapshot_pushed_bytes_total", "Bytes of snapshots sent to the object store.")
RERANKS = counter(
    "sluice_reranks_total",
    "Searches whose best candidates were to be reranked, by how it went: ok, failed, left_alone or no_budget.",
    "outcome",
)


CITED_SENTIMENT = counter("sluice_cited_sentiment_total", "Cited passages by their tone, where it is read.", "label")
CITED_DISCLOSURES = counter(
    "sluice_cited_disclosures_total", "Cited passages that speak for a brand, by whether they say so.", "status"
)
CITED_CLAIMS = counter("sluice_cited_claims_total", "Claims in cited passages that need proof.")
CHANNEL_DIVERSITY = histogram(
    "sluice_channel_diversity", "How varied the sources of an answer are, from 0 to 1.", SHARES, "profile"
)
VOICE_COVERAGE = histogram(
    "sluice_voice_coverage", "Share of the brands asked about that an answer's passages name.", SHARES, "profile"
)
CITED_CODE = counter("sluice_cited_code_total", "Cited passages with code, by the policy of code samples.", "policy")


PRIVATE_FOUND = counter(
    "sluice_private_found_total", "Private data and secrets found in chunks that were ingested, by kind.", "kind"
)
MASKED = counter(
    "sluice_masked_total", "Private data and secrets masked in what queries gave, by kind; never the value.", "kind"
)
QUARANTINED = counter(
    "sluice_quarantined_chunks_total", "Chunks that the guard blocked when they were ingested, by rule.", "rule"
)
QUARANTINE_HELD = gauge("sluice_quarantine_held", "Chunks in quarantine that wait for an operator.")
