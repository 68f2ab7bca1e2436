"""Metrics of the graph of what is indexed: how it follows the index, and how it is walked and asked."""

from __future__ import annotations

from sluice.otel.metrics.registry import (
    MICROSECONDS_TO_SECONDS,
    MILLISECONDS_TO_MINUTES,
    MILLISECONDS_TO_SECONDS,
    counter,
    gauge,
    histogram,
)

GRAPH_DOCUMENTS = counter(
    "sluice_graph_documents_total",
    "Documents that the stage graph looked at, by outcome: read, unchanged, removed or failed.",
    "outcome",
)
GRAPH_EDGES = gauge("sluice_graph_edges", "Edges of all graphs, as their documents state them.")
GRAPH_BEHIND = gauge(
    "sluice_graph_behind",
    "What all graphs lack: documents that are indexed and not read, changes that are not in the published generation, "
    "not in the file of the Cypher engine, or not on the graph server.",
    "what",
)
GRAPH_GENERATIONS = counter(
    "sluice_graph_generations_total",
    "Generations, by outcome: published, failed (the older one stays), or damaged (found so and thrown away).",
    "outcome",
)
GRAPH_PUBLISH_SECONDS = histogram(
    "sluice_graph_publish_seconds",
    "Time of making files of the ledger's rows, by which: generation or cypher.",
    MILLISECONDS_TO_MINUTES,
    "file",
)
GRAPH_WALK_SECONDS = histogram(
    "sluice_graph_walk_seconds",
    "Time of one walk of a search, from what it found to candidates.",
    MICROSECONDS_TO_SECONDS,
)
GRAPH_ABSTAINED = counter(
    "sluice_graph_abstained_total",
    "Searches to which the graph gave nothing, by why: absent (no generation), damaged, unconnected or failed.",
    "reason",
)
GRAPH_QUERY_SECONDS = histogram(
    "sluice_graph_query_seconds",
    "Time of a question to the graph, by kind: cypher, server, nearest, neighbours or linked.",
    MILLISECONDS_TO_SECONDS,
    "kind",
)
