"""Every metric, one row each: its name with its labels as PromQL writes them, and a histogram's buckets.

`sentences.toml` explains each. An `EVALUATION_` figure is of the evaluator's latest windows, by profile and plan. It is
NaN where no run gives it, so that an unknown figure is not taken for 0. `bound` is `estimate`, `low` or `high`: the
figure and the ends of its 95 % interval.
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

# -- decisions and answers: the gate, runs' outcomes, flags, budgets, queries, profiles and trust

GATE_DECISIONS = counter("sluice_gate_decision_total{plan_type,profile,scored_plan,gate_model_version}")
GATE_VETOES = counter("sluice_gate_vetoes_total{name}")
JUDGE_CALLS = counter("sluice_gate_judge_calls_total{outcome}")
SELF_DEFENCE_ACTIVE = gauge("sluice_self_defence_active{name,profile}")
RESPONSE_JUDGED = histogram("sluice_response_judged{figure}", SHARES)
RUN_SECONDS = histogram("sluice_run_seconds{status}", MILLISECONDS_TO_MINUTES)
FEEDBACK = counter("sluice_feedback_total{outcome}")
PRECISION_AT_K = histogram("sluice_precision_at_k", SHARES)
TOKEN_SPEND = counter("sluice_token_spend_total{spent_on}")
GATE_MODEL_VERSION = gauge("sluice_gate_model_version{gate_model_version,status}")
GATE_MODEL_RUNS = counter("sluice_gate_model_runs_total{gate_model_version,arm,compared}")
GATE_MODEL_FAILURES = counter("sluice_gate_model_failures_total")
GATE_ROLLOUT_VERDICTS = counter("sluice_gate_rollout_verdicts_total{verdict}")

EVALUATION_RUNS = gauge("sluice_evaluation_runs{profile,plan}")
EVALUATION_JUDGED = gauge("sluice_evaluation_judged_runs{profile,plan}")
EVALUATION_JUDGED_SHARE = gauge("sluice_evaluation_judged_share{profile,plan}")
EVALUATION_SATISFACTION = gauge("sluice_evaluation_satisfaction{profile,plan,bound}")
EVALUATION_USD_PER_SUCCESS = gauge("sluice_evaluation_usd_per_success{profile,plan,bound}")
EVALUATION_FRESHNESS_GAIN_SECONDS = gauge("sluice_evaluation_freshness_gain_seconds{profile,plan,bound}")
EVALUATION_PRECISION_AT_K = gauge("sluice_evaluation_precision_at_k{profile,plan,bound}")
EVALUATION_CRAWL_SUCCESS_RATE = gauge("sluice_evaluation_crawl_success_rate{profile,plan,bound}")
EVALUATION_EXTERNAL_CALLS = gauge("sluice_evaluation_external_calls{profile,plan}")
EVALUATION_TOKEN_SPEND = gauge("sluice_evaluation_token_spend{profile,plan}")
EVALUATION_LATENCY_SECONDS = gauge("sluice_evaluation_latency_seconds{profile,plan,quantile}")
EVALUATION_BEHIND_SECONDS = gauge("sluice_evaluation_behind_seconds")

FLAG_ENABLED = gauge("sluice_flag_enabled{flag}")
FLAG_SHARE = gauge("sluice_flag_share{flag,arm,figure}")
FLAG_CHANGES = counter("sluice_flag_changes_total{flag,to}")
UNKNOWN_FLAGS = counter("sluice_unknown_flags_total")
PURGED_DIRECTIVES = counter("sluice_purged_directives_total{flag}")

BUDGET_LIMIT_USD = gauge("sluice_budget_limit_usd{scope}")
BUDGET_USED_USD = gauge("sluice_budget_used_usd{scope}")
BUDGET_USED_RATIO = gauge("sluice_budget_used_ratio{scope,unit}")

FUSION_SECONDS = histogram("sluice_retrieval_fusion_latency_seconds", MICROSECONDS_TO_SECONDS)
QUERY_SECONDS = histogram("sluice_query_seconds{strategy}", MILLISECONDS_TO_SECONDS)
RETRIEVAL_GATES = counter("sluice_retrieval_gates_total{gate,outcome}")
SOURCE_TRUST = histogram("sluice_source_trust", SHARES)
GUARD_DROPPED = counter("sluice_guard_dropped_total")
REPLY_SECONDS = histogram("sluice_reply_seconds", MILLISECONDS_TO_SECONDS)
DOCUMENT_AGE_SECONDS = histogram("sluice_document_age_seconds{profile}", MINUTES_TO_YEARS)
STALE_CITATIONS = counter("sluice_stale_citations_total{what}")
CITED_AGE_SECONDS = histogram("sluice_cited_document_age_seconds{profile}", MINUTES_TO_YEARS)
CITED_AGE_TARGET_SECONDS = gauge("sluice_cited_document_age_target_seconds{profile}")
CORPUS_CHANGES_UNEXPLAINED = counter("sluice_corpus_changes_unexplained_total{corpus}")
SNAPSHOT_FALLBACKS = counter("sluice_snapshot_fallbacks_total")
SNAPSHOT_PUSHES = counter("sluice_snapshot_pushes_total{outcome}")
SNAPSHOT_PUSHED_BYTES = counter("sluice_snapshot_pushed_bytes_total")
INDEX_UNSHIPPED_SECONDS = gauge("sluice_index_unshipped_seconds")
RERANKS = counter("sluice_reranks_total{outcome}")

CITED_SENTIMENT = counter("sluice_cited_sentiment_total{label}")
CITED_DISCLOSURES = counter("sluice_cited_disclosures_total{status}")
CITED_CLAIMS = counter("sluice_cited_claims_total")
CHANNEL_DIVERSITY = histogram("sluice_channel_diversity{profile}", SHARES)
VOICE_COVERAGE = histogram("sluice_voice_coverage{profile}", SHARES)
CITED_CODE = counter("sluice_cited_code_total{policy}")

PRIVATE_FOUND = counter("sluice_private_found_total{kind}")
MASKED = counter("sluice_masked_total{kind}")
QUARANTINED = counter("sluice_quarantined_chunks_total{rule}")
QUARANTINE_HELD = gauge("sluice_quarantine_held")
BACKUP_VERIFIED_AT = gauge("sluice_backup_verified_timestamp_seconds")

# -- the machinery: stages, ledger, HTTP, ingestion, searches and crawls, memory, the graph

STAGE_READY = gauge("sluice_stage_ready{stage}")
STAGE_IN_FLIGHT = gauge("sluice_stage_in_flight{stage}")
STAGE_OLDEST_READY_SECONDS = gauge("sluice_stage_oldest_ready_seconds{stage}")
STAGE_PAUSES = counter("sluice_stage_pauses_total{stage}")
EVENTS_HANDLED = counter("sluice_events_handled_total{stage,kind,outcome}")
EVENT_SECONDS = histogram("sluice_event_seconds{stage,kind}", MILLISECONDS_TO_MINUTES)
RECONCILER_REPUBLISHED = counter("sluice_reconciler_republished_total{cause}")
DEAD_LETTERS = counter("sluice_dead_letters_total{stage,reason}")
WEBHOOK_ATTEMPTS = counter("sluice_webhook_attempts_total{outcome}")
LEDGER_COMMIT_SECONDS = histogram("sluice_ledger_commit_seconds", MICROSECONDS_TO_SECONDS)

HTTP_REQUESTS = counter("sluice_http_requests_total{route,method,status}")
HTTP_REQUEST_SECONDS = histogram("sluice_http_request_seconds{route,method,status}", MILLISECONDS_TO_MINUTES)
SPAN_STORE_FAILURES = counter("sluice_span_store_failures_total")

EMBEDDING_CACHE = counter("sluice_embedding_cache_total{result}")
EMBEDDING_SECONDS = histogram("sluice_embedding_seconds", MILLISECONDS_TO_MINUTES)
INDEX_PUBLISH_SECONDS = histogram("sluice_index_publish_seconds", MILLISECONDS_TO_MINUTES)
INDEX_GENERATION_CHUNKS = gauge("sluice_index_generation_chunks{corpus}")
CRAWL_INGEST_SECONDS = histogram("sluice_crawl_ingest_latency_seconds", MILLISECONDS_TO_MINUTES)

SEARCH_CALLS = counter("sluice_search_calls_total{provider,outcome}")
SEARCH_COST_USD = counter("sluice_search_cost_usd_total{provider}")
CRAWL_PAGES = counter("sluice_crawl_pages_total{outcome,rendered}")
BREAKERS_OPENED = counter("sluice_breakers_opened_total{what}")
EGRESS_REFUSALS = counter("sluice_egress_refusals_total{purpose,rule}")
CRAWL_REFUSALS = counter("sluice_crawl_refusals_total{rule}")

MEMORY_ITERATIONS = counter("sluice_memory_iterations_total{outcome}")
MEMORY_LEARNINGS = counter("sluice_memory_learnings_total{verdict}")
MEMORY_RECALL_SECONDS = histogram("sluice_memory_recall_seconds{searched}", MILLISECONDS_TO_SECONDS)
MEMORY_BEHIND = gauge("sluice_memory_behind")

GRAPH_DOCUMENTS = counter("sluice_graph_documents_total{outcome}")
GRAPH_EDGES = gauge("sluice_graph_edges")
GRAPH_BEHIND = gauge("sluice_graph_behind{what}")
GRAPH_GENERATIONS = counter("sluice_graph_generations_total{outcome}")
GRAPH_PUBLISH_SECONDS = histogram("sluice_graph_publish_seconds{file}", MILLISECONDS_TO_MINUTES)
GRAPH_WALK_SECONDS = histogram("sluice_graph_walk_seconds", MICROSECONDS_TO_SECONDS)
GRAPH_ABSTAINED = counter("sluice_graph_abstained_total{reason}")
GRAPH_QUERY_SECONDS = histogram("sluice_graph_query_seconds{kind}", MILLISECONDS_TO_SECONDS)
