"""Values that options accept, listed here so that commands need not import the server's types.
`tests/unit/cli/test_choices.py` compares them with those types."""

from __future__ import annotations

from typing import Literal

Stage = Literal["gate", "search", "crawl", "chunk", "embed", "index", "query", "graph"]
Plan = Literal["skip", "retrieve", "search", "full_loop"]
Strategy = Literal["bm25", "vector", "hybrid", "hybrid_graph"]
Render = Literal["auto", "always", "never"]
RunKind = Literal["gate", "documents", "crawl", "deletion", "control", "memory", "graph"]
DeadLetterReason = Literal["exhausted", "poison", "malformed", "unroutable", "policy", "timeout", "discarded"]
DeadLetterStatus = Literal["parked", "replayed", "purged"]
QuarantineState = Literal["held", "released", "purged"]
FeedbackOutcome = Literal["success", "failure", "partial", "unknown"]
SignalName = Literal["task_satisfaction", "tool_success", "user_acceptance", "benchmark"]
DefenceName = Literal["satisfaction", "freshness", "latency", "cost"]
FLAG_VARIABLES = {
    "gate_weights": "FEATURE_GATE_WEIGHTS",
    "search": "FEATURE_SEARCH",
    "crawl": "FEATURE_CRAWL",
    "hybrid": "FEATURE_HYBRID_RETRIEVAL",
    "rerank": "FEATURE_RERANK",
    "learned_gate": "FEATURE_LEARNED_GATE",
    "ragas": "FEATURE_RAGAS_EVAL",
    "graph": "FEATURE_GRAPH",
    "memory": "FEATURE_MEMORY",
}
"""The flags, and the environment variable of each."""
