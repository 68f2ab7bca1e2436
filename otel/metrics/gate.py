"""Metrics of the gate, of runs and of what agents say of their answers."""

from __future__ import annotations

from sluice.otel.metrics.registry import MILLISECONDS_TO_MINUTES, SHARES, counter, gauge, histogram

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
