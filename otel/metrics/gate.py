"""Metrics of the gate, of runs and of what agents say of their answers."""

from __future__ import annotations

from otel.metrics.registry import MILLISECONDS_TO_MINUTES, SHARES, counter, histogram

GATE_DECISIONS = counter(
    "sluice_gate_decisions_total",
    "Decisions by the plan carried out, the profile, and the plan that the score alone chose.",
    "plan",
    "profile",
    "scored_plan",
)
GATE_VETOES = counter(
    "sluice_gate_vetoes_total", "Times that a rule or ceiling lowered a plan, by the veto's name.", "name"
)
RUN_SECONDS = histogram(
    "sluice_run_seconds", "From a run's acceptance to its end, by how it ended.", MILLISECONDS_TO_MINUTES, "status"
)
FEEDBACK = counter("sluice_feedback_total", "Feedback on answers, by outcome.", "outcome")
ANSWER_PRECISION = histogram(
    "sluice_answer_precision", "Share of an answer's chunks that the agent says it used, from 0 to 1.", SHARES
)
