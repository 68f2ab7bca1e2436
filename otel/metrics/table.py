"""Every metric, one row each: its name with its labels as PromQL writes them, a sentence, and a histogram's buckets.

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

# -- decisions and answers: the gate, what became of runs, flags, budgets, queries, profiles and trust

GATE_DECISIONS = counter(
    "sluice_gate_decision_total{plan_type,profile,scored_plan,gate_model_version}",
    "Decisions by the plan carried out, the profile, the plan that the score alone chose, and the version of the "
    "model that decided (heuristic: the profile's weights).",
)
GATE_VETOES = counter(
    "sluice_gate_vetoes_total{name}", "Times that a rule or ceiling lowered a plan, by the veto's name."
)
JUDGE_CALLS = counter(
    "sluice_gate_judge_calls_total{outcome}",
    "Times that the judge was asked or could not be, by its verdict, failed or no_budget.",
)
SELF_DEFENCE_ACTIVE = gauge(
    "sluice_self_defence_active{name,profile}",
    'Whether a step back of the gate stands, by its name and profile ("*": for all); 1 while it does.',
)
RESPONSE_JUDGED = histogram(
    "sluice_response_judged{figure}",
    "How far sampled responses of agents keep to their passages, from 0 to 1: groundedness, faithfulness.",
    SHARES,
)
RUN_SECONDS = histogram(
    "sluice_run_seconds{status}", "From a run's acceptance to its end, by how it ended.", MILLISECONDS_TO_MINUTES
)
FEEDBACK = counter("sluice_feedback_total{outcome}", "Feedback on answers, by outcome.")
PRECISION_AT_K = histogram(
    "sluice_precision_at_k", "Share of an answer's k cited chunks that the agent says it used, from 0 to 1.", SHARES
)
TOKEN_SPEND = counter(
    "sluice_token_spend_total{spent_on}",
    "Tokens spent: embedded by a model, or handed to agents as the context of answers.",
)
GATE_MODEL_VERSION = gauge(
    "sluice_gate_model_version{gate_model_version,status}",
    "Share of the runs that a learned model decides, by its version and the state of its rollout; 0 in its shadow.",
)
GATE_MODEL_RUNS = counter(
    "sluice_gate_model_runs_total{gate_model_version,arm,compared}",
    "Decisions that a rolled out model had a part in, by its version, the run's arm, and whether the model's plan is "
    "the one that the profile's weights choose: same, other, or not_asked.",
)
GATE_MODEL_FAILURES = counter(
    "sluice_gate_model_failures_total", "Decisions that a model was to make, and could not be read for."
)
GATE_ROLLOUT_VERDICTS = counter(
    "sluice_gate_rollout_verdicts_total{verdict}", "Verdicts on stages of canaries that changed, by kind."
)

EVALUATION_RUNS = gauge("sluice_evaluation_runs{profile,plan}", "Runs in the evaluator's latest windows.")
EVALUATION_JUDGED = gauge("sluice_evaluation_judged_runs{profile,plan}", "Those of them that something was said of.")
EVALUATION_JUDGED_SHARE = gauge("sluice_evaluation_judged_share{profile,plan}", "Judged runs of all runs, from 0 to 1.")
EVALUATION_SATISFACTION = gauge(
    "sluice_evaluation_satisfaction{profile,plan,bound}", "Mean satisfaction of the judged runs, from 0 to 1."
)
EVALUATION_USD_PER_SUCCESS = gauge(
    "sluice_evaluation_usd_per_success{profile,plan,bound}",
    "US dollars per successful task: cost of the judged runs through the sum of their satisfaction.",
)
EVALUATION_FRESHNESS_GAIN_SECONDS = gauge(
    "sluice_evaluation_freshness_gain_seconds{profile,plan,bound}",
    "How much younger the cited text is by the runs' own crawls, mean.",
)
EVALUATION_PRECISION_AT_K = gauge(
    "sluice_evaluation_precision_at_k{profile,plan,bound}", "Share of the cited passages that were used, from 0 to 1."
)
EVALUATION_CRAWL_SUCCESS_RATE = gauge(
    "sluice_evaluation_crawl_success_rate{profile,plan,bound}",
    "Share of the pages asked for that were read, from 0 to 1.",
)
EVALUATION_EXTERNAL_CALLS = gauge("sluice_evaluation_external_calls{profile,plan}", "Searches and pages per run, mean.")
EVALUATION_TOKEN_SPEND = gauge(
    "sluice_evaluation_token_spend{profile,plan}", "Tokens per run, embedded and answered with, mean."
)
EVALUATION_LATENCY_SECONDS = gauge(
    "sluice_evaluation_latency_seconds{profile,plan,quantile}",
    "From acceptance to the end of a run: quantiles 0.5 and 0.95.",
)
EVALUATION_BEHIND_SECONDS = gauge(
    "sluice_evaluation_behind_seconds", "How much of the past the evaluator still has to read, after a start."
)

FLAG_ENABLED = gauge("sluice_flag_enabled{flag}", "Whether the feature is on: 1 or 0.")
FLAG_CHANGES = counter(
    "sluice_flag_changes_total{flag,to}", "Times that a feature was seen to go on or off, by what it is since."
)
UNKNOWN_FLAGS = counter("sluice_unknown_flags_total", "Times that a flag was asked for that there is not.")
PURGED_DIRECTIVES = counter(
    "sluice_purged_directives_total{flag}", "Directives that were cancelled because their feature was switched off."
)

BUDGET_LIMIT_USD = gauge(
    "sluice_budget_limit_usd{scope}", "The ceiling in US dollars of a run or of a UTC day; +Inf without one."
)
BUDGET_USED_USD = gauge(
    "sluice_budget_used_usd{scope}", "US dollars that this UTC day has spent or reserved, by the ledger."
)
BUDGET_USED_RATIO = gauge(
    "sluice_budget_used_ratio{scope,unit}",
    "What this UTC day has spent or reserved as a share of its ceiling, by unit (usd, pages, bytes, tokens, "
    "milliseconds); 0 without a ceiling.",
)

FUSION_SECONDS = histogram(
    "sluice_retrieval_fusion_latency_seconds",
    "One search of a generation: both arms, their fusion, filters and budget; without embedding the query.",
    MICROSECONDS_TO_SECONDS,
)
QUERY_SECONDS = histogram(
    "sluice_query_seconds{strategy}", "One query in a query worker, by strategy.", MILLISECONDS_TO_SECONDS
)
RETRIEVAL_GATES = counter(
    "sluice_retrieval_gates_total{gate,outcome}",
    "Retrievals by the outcome of each gate over them: source trust, poisoning.",
)
SOURCE_TRUST = histogram("sluice_source_trust", "Mean trust of what a retrieval serves, from 0 to 1.", SHARES)
GUARD_DROPPED = counter("sluice_guard_dropped_total", "Passages that were found, and not served as they are blocked.")
REPLY_SECONDS = histogram(
    "sluice_reply_seconds", "From a direct query's dispatch to its reply, queue included.", MILLISECONDS_TO_SECONDS
)
DOCUMENT_AGE_SECONDS = histogram(
    "sluice_document_age_seconds{profile}",
    "Age of the documents cited in answers, by the gate's profile.",
    MINUTES_TO_YEARS,
)
STALE_CITATIONS = counter(
    "sluice_stale_citations_total{what}",
    "Citations of answers whose passages were found changed or gone since, by which of the two.",
)
CITED_AGE_SECONDS = histogram(
    "sluice_cited_document_age_seconds{profile}",
    "Time since the documents that answers cite were read or seen to be as they were, by the gate's profile.",
    MINUTES_TO_YEARS,
)
CITED_AGE_TARGET_SECONDS = gauge(
    "sluice_cited_document_age_target_seconds{profile}", "What the median of that age is to stay below, by profile."
)
CORPUS_CHANGES_UNEXPLAINED = counter(
    "sluice_corpus_changes_unexplained_total{corpus}",
    "Times that a corpus was found to hold something else although nothing was written to its journal.",
)
SNAPSHOT_FALLBACKS = counter(
    "sluice_snapshot_fallbacks_total", "Times that a generation failed its verification and an older one was served."
)
SNAPSHOT_PUSHES = counter(
    "sluice_snapshot_pushes_total{outcome}", "Published snapshots on their way to the object store: ok or failed."
)
SNAPSHOT_PUSHED_BYTES = counter("sluice_snapshot_pushed_bytes_total", "Bytes of snapshots sent to the object store.")
RERANKS = counter(
    "sluice_reranks_total{outcome}",
    "Searches whose best candidates were to be reranked, by how it went: ok, failed, left_alone or no_budget.",
)

CITED_SENTIMENT = counter("sluice_cited_sentiment_total{label}", "Cited passages by their tone, where it is read.")
CITED_DISCLOSURES = counter(
    "sluice_cited_disclosures_total{status}", "Cited passages that speak for a brand, by whether they say so."
)
CITED_CLAIMS = counter("sluice_cited_claims_total", "Claims in cited passages that need proof.")
CHANNEL_DIVERSITY = histogram(
    "sluice_channel_diversity{profile}", "How varied the sources of an answer are, from 0 to 1.", SHARES
)
VOICE_COVERAGE = histogram(
    "sluice_voice_coverage{profile}", "Share of the brands asked about that an answer's passages name.", SHARES
)
CITED_CODE = counter("sluice_cited_code_total{policy}", "Cited passages with code, by the policy of code samples.")

PRIVATE_FOUND = counter(
    "sluice_private_found_total{kind}", "Private data and secrets found in chunks that were ingested, by kind."
)
MASKED = counter(
    "sluice_masked_total{kind}", "Private data and secrets masked in what queries gave, by kind; never the value."
)
QUARANTINED = counter(
    "sluice_quarantined_chunks_total{rule}", "Chunks that the guard blocked when they were ingested, by rule."
)
QUARANTINE_HELD = gauge("sluice_quarantine_held", "Chunks in quarantine that wait for an operator.")

# -- the machinery: stages, ledger, HTTP, ingestion, searches and crawls, memory, the graph

STAGE_READY = gauge("sluice_stage_ready{stage}", "Events that wait for a worker.")
STAGE_IN_FLIGHT = gauge("sluice_stage_in_flight{stage}", "Events that a worker has claimed.")
STAGE_OLDEST_READY_SECONDS = gauge(
    "sluice_stage_oldest_ready_seconds{stage}", "Age of the event that has waited longest; 0 when none waits."
)
STAGE_PAUSES = counter("sluice_stage_pauses_total{stage}", "Times that a stage's circuit breaker opened.")
EVENTS_HANDLED = counter(
    "sluice_events_handled_total{stage,kind,outcome}", "Events handled, by how the handling ended."
)
EVENT_SECONDS = histogram(
    "sluice_event_seconds{stage,kind}", "Handling one event, from claim to settled.", MILLISECONDS_TO_MINUTES
)
RECONCILER_REPUBLISHED = counter(
    "sluice_reconciler_republished_total{cause}", "Events that the reconciler published again, by cause."
)
DEAD_LETTERS = counter("sluice_dead_letters_total{stage,reason}", "Events parked for an operator.")
LEDGER_COMMIT_SECONDS = histogram(
    "sluice_ledger_commit_seconds", "One durable commit of the ledger.", MICROSECONDS_TO_SECONDS
)

HTTP_REQUESTS = counter(
    "sluice_http_requests_total{route,method,status}", "HTTP requests, by route template, method and status code."
)
HTTP_REQUEST_SECONDS = histogram(
    "sluice_http_request_seconds{route,method,status}",
    "Serving one HTTP request; for a stream, until its first byte.",
    MILLISECONDS_TO_MINUTES,
)
SPAN_STORE_FAILURES = counter(
    "sluice_span_store_failures_total", "Batches of spans that the local store could not take."
)

EMBEDDING_CACHE = counter(
    "sluice_embedding_cache_total{result}", "Texts looked up in the embedding cache, by result (hit or miss)."
)
EMBEDDING_SECONDS = histogram(
    "sluice_embedding_seconds",
    "Embedding the texts of one message that the cache did not have.",
    MILLISECONDS_TO_MINUTES,
)
INDEX_PUBLISH_SECONDS = histogram(
    "sluice_index_publish_seconds",
    "Publishing one generation, from its first write to the swapped pointer.",
    MILLISECONDS_TO_MINUTES,
)
INDEX_GENERATION_CHUNKS = gauge("sluice_index_generation_chunks{corpus}", "Chunks in the current generation.")
CRAWL_INGEST_SECONDS = histogram(
    "sluice_crawl_ingest_latency_seconds",
    "From the fetch of a crawled page until a published generation holds its chunks, so that queries find them.",
    MILLISECONDS_TO_MINUTES,
)

SEARCH_CALLS = counter("sluice_search_calls_total{provider,outcome}", "Calls of search providers, by outcome.")
SEARCH_COST_USD = counter("sluice_search_cost_usd_total{provider}", "US dollars spent on search calls.")
CRAWL_PAGES = counter(
    "sluice_crawl_pages_total{outcome,rendered}",
    "Pages asked for, by outcome (ok, unchanged, refused by a rule or a budget, missed) and by whether the browser "
    "rendered them.",
)
BREAKERS_OPENED = counter(
    "sluice_breakers_opened_total{what}",
    "Times that a search provider, a host or the reranker failed so often that its circuit was opened.",
)
EGRESS_REFUSALS = counter(
    "sluice_egress_refusals_total{purpose,rule}",
    "What pages wanted to reach and the egress proxy refused, by what it was for and by rule.",
)
CRAWL_REFUSALS = counter(
    "sluice_crawl_refusals_total{rule}",
    "Pages not fetched or not kept because a rule or a budget forbids it, by the name of the rule.",
)

MEMORY_ITERATIONS = counter(
    "sluice_memory_iterations_total{outcome}",
    "Iterations that were recorded, by outcome: Success, Failure, Partial, Timeout or RateLimited.",
)
MEMORY_LEARNINGS = counter(
    "sluice_memory_learnings_total{verdict}",
    "Learnings that were handed in, by what became of them: unique, duplicate, conflict, echo or refused.",
)
MEMORY_RECALL_SECONDS = histogram(
    "sluice_memory_recall_seconds{searched}",
    "Time of a recall, by what was searched: hybrid, bm25, or the journal where the index is away.",
    MILLISECONDS_TO_SECONDS,
)
MEMORY_BEHIND = gauge("sluice_memory_behind", "Entries of all journals of memory that the index does not hold yet.")

GRAPH_DOCUMENTS = counter(
    "sluice_graph_documents_total{outcome}",
    "Documents that the stage graph looked at, by outcome: read, unchanged, removed or failed.",
)
GRAPH_EDGES = gauge("sluice_graph_edges", "Edges of all graphs, as their documents state them.")
GRAPH_BEHIND = gauge(
    "sluice_graph_behind{what}",
    "What all graphs lack: documents that are indexed and not read, changes that are not in the published generation,"
    " not in the file of the Cypher engine, or not on the graph server.",
)
GRAPH_GENERATIONS = counter(
    "sluice_graph_generations_total{outcome}",
    "Generations, by outcome: published, failed (the older one stays), or damaged (found so and thrown away).",
)
GRAPH_PUBLISH_SECONDS = histogram(
    "sluice_graph_publish_seconds{file}",
    "Time of making files of the ledger's rows, by which: generation or cypher.",
    MILLISECONDS_TO_MINUTES,
)
GRAPH_WALK_SECONDS = histogram(
    "sluice_graph_walk_seconds",
    "Time of one walk of a search, from what it found to candidates.",
    MICROSECONDS_TO_SECONDS,
)
GRAPH_ABSTAINED = counter(
    "sluice_graph_abstained_total{reason}",
    "Searches to which the graph gave nothing, by why: absent (no generation), damaged, unconnected or failed.",
)
GRAPH_QUERY_SECONDS = histogram(
    "sluice_graph_query_seconds{kind}",
    "Time of a question to the graph, by kind: cypher, server, nearest, neighbours or linked.",
    MILLISECONDS_TO_SECONDS,
)
