"""Every operation of the HTTP interface. `SluiceClient` and `AsyncSluiceClient` have them all."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from sluice_client.calls import Call, operation, queried, request, starting

if TYPE_CHECKING:
    from sluice_client import models

DEFAULT_DEADLINE_SECONDS = 60.0
"""Seconds that a run without a deadline may take, by the server's default."""
CYPHER_SECONDS = 5.0
"""Seconds for a Cypher query that sets no limit, by the server's default."""
SITE_SECONDS = 60.0
"""Seconds that the server waits for a page that is read to be shown."""
REBUILD_SECONDS = PROOF_SECONDS = 600.0
"""Seconds for reading everything anew."""
TAR = "application/x-tar"
UPLOAD_SECONDS = 120.0
"""Seconds for sending files, and for their unpacking at the door."""
MOST_HELD_AT_ONCE = 1_000


class Operations:
    """The calls. `fields` are those of the request's body that have no parameter here. "Needs an operator" applies
    where the server requires keys."""

    @operation
    def gate(
        self,
        /,
        query: str,
        corpus: str = "default",
        *,
        wait: bool = True,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Call[models.RunView | models.RunAccepted]:
        """Ask. With `wait` returns the finished run; without, or past the deadline, its acceptance.

        `fields`: profile, session, limits, deadline_seconds, plan, seeds, top_k, max_tokens, filters, trust_threshold,
        diversity, neighbours, max_per_domain, duplicate_threshold, rerank, confidence_floor, render, screenshot,
        prompt, session_id, memory, lexical_weight, candidates, where, create_corpus, search (locale, top_k, sites,
        after, before, freshness).
        """
        call = starting("/v1/gate", {"query": query, "corpus": corpus, "wait": wait, **fields}, idempotency_key)
        patience = (fields.get("deadline_seconds") or DEFAULT_DEADLINE_SECONDS) if wait else 0.0
        return replace(call, answer={200: "RunView", 202: "RunAccepted"}, patience_seconds=patience)

    @request("GET /v1/runs")
    def runs(
        self,
        *,
        corpus: str | None = None,
        status: str | None = None,
        kind: str | None = None,
        owner: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        q: str | None = None,
        retrying: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.Page[models.RunSummary]:
        """List runs, the newest first. `q`: words of the question, or an id; `retrying`: with work that failed."""

    @request("GET /v1/runs/{run_id}")
    def run(self, run_id: str) -> models.RunView:
        """Return everything about a run."""

    @request("DELETE /v1/runs/{run_id}")
    def cancel(self, run_id: str) -> models.RunView:
        """Stop the open work of a run."""

    @request("GET /v1/runs/{run_id}/evidence/{number}")
    def evidence(self, run_id: str, number: int) -> models.EvidenceView:
        """Return what one citation of a run's answer rests on."""

    @request("POST /v1/feedback", in_body=True, is_repeatable=True)
    def feedback(self, /, run_id: str, **fields: Any) -> dict[str, str]:
        """Give feedback on a run's answer: chunk_ids_used, outcome, rating, signal, note, response. It counts once for
        each run, key and signal.

        `passages` are of the answer and bad evidence: each with `citation` or `chunk_id`, `reason` (wrong, harmful,
        outdated, off_topic, attack, duplicate) and `note`; with the verdict `fine` one takes back what one said of it.
        """

    @request("GET /v1/feedback/passages")
    def marked_passages(
        self, corpus: str = "default", *, limit: int | None = None, cursor: str | None = None
    ) -> models.Page[models.MarkedPassage]:
        """List the passages of a corpus that callers call bad evidence. Needs an operator."""

    @request("DELETE /v1/feedback/passages/{chunk_id}")
    def clear_passage(self, chunk_id: str, corpus: str = "default", note: str = "") -> models.MarkedPassage:
        """Lift what callers say against a passage; return what stood. Needs an operator."""

    @request("POST /v1/query", in_body=True, is_repeatable=True)
    def query(self, /, query: str, corpus: str = "default", **fields: Any) -> models.Retrieval:
        """Search the corpus, without a run.

        `fields`: top_k, strategy, filters, trust_threshold, max_tokens, diversity, neighbours, max_per_domain,
        duplicate_threshold, rerank, confidence_floor, lexical_weight, candidates, where, prompt,
        minimum_journal_offset.
        """

    retrieve = query
    """The name of `query` in RetrievalPort, whose other two calls follow."""

    @operation
    def query_corpora(self, /, query: str, corpora: Sequence[str], **fields: Any) -> Call[models.JoinedRetrieval]:
        """Search several corpora; their passages come in one order, each with its corpus. `fields` as of `query`."""
        return Call("POST", "/v1/query", body={"query": query, "corpora": corpora, **fields}, is_repeatable=True)

    @request("POST /v1/query/batch", in_body=True, is_repeatable=True)
    def batch_retrieve(self, queries: Sequence[Mapping[str, Any]]) -> models.BatchResult:
        """Search for up to a hundred queries, each with the fields of `query`. One that is refused stops no other."""

    @operation
    def batch_gate(
        self, requests: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> Call[models.BatchResult]:
        """Begin up to a hundred runs, each with the fields of `gate` but `wait`. One that is refused stops no other."""
        return starting("/v1/gate/batch", {"requests": requests}, idempotency_key)

    @request("GET /v1/stats")
    def stats(self, corpus: str = "default") -> models.RetrievalStats:
        """Return the engine of a corpus, the generation that it serves, and how much that holds."""

    @request("GET /v1/corpora")
    def corpora(self, *, limit: int | None = None, cursor: str | None = None) -> models.Page[models.CorpusView]:
        """List the corpora that the key may see, with what each holds."""

    @request("POST /v1/corpora", in_body=True)
    def create_corpus(self, /, name: str, **settings: Any) -> models.CorpusView:
        """Make an empty corpus. `settings`: description; for operators also search, crawl, sources."""

    @request("GET /v1/corpora/{corpus}")
    def corpus(self, corpus: str) -> models.CorpusView:
        """Return what a corpus holds, its settings, and the policy that follows from all settings."""

    @operation
    def change_corpus(self, /, corpus: str, *, version: int | None = None, **settings: Any) -> Call[models.CorpusView]:
        """Change settings of a corpus; None gives one its default. With `version` only if it is the corpus's still:
        else raises `PreconditionFailed`. Needs an operator."""
        seen = None if version is None else f'"{version}"'
        return Call("PATCH", "/v1/corpora/{}", (corpus,), body=settings, is_repeatable=True, if_match=seen)

    @request("DELETE /v1/corpora/{corpus}")
    def delete_corpus(self, corpus: str, note: str = "") -> models.RunAccepted:
        """Forget every document of a corpus, with every trace, and the corpus. Needs an operator."""

    @request("POST /v1/corpora/{corpus}/export")
    def export_corpus(self, corpus: str) -> models.RunAccepted:
        """Write a corpus to a file: once the run is finished, `artefact` returns what its link `artefact` names. Needs
        an operator."""

    @operation
    def import_corpus(self, corpus: str, artefact_id: str) -> Call[models.RunAccepted]:
        """Write the documents of an artefact to a corpus that exists. Needs an operator."""
        return Call("POST", "/v1/corpora/{}/import", (corpus,), body={"artefact_id": artefact_id})

    @request("GET /v1/artefacts/{artefact_id}", patience_seconds=UPLOAD_SECONDS)
    def artefact(self, artefact_id: str) -> bytes:
        """Return an exported corpus, a tar. It is held in memory. Needs an operator."""

    @operation
    def upload_artefact(self, payload: bytes) -> Call[models.Artefact]:
        """Upload a corpus that another instance has exported. Needs an operator."""
        return Call("POST", "/v1/artefacts", body=payload, content_type=TAR, patience_seconds=UPLOAD_SECONDS)

    @request("GET /v1/prompts")
    def prompts(self) -> models.Page[models.PromptView]:
        """List the templates that `prompt` may name."""

    @request("GET /v1/documents")
    def documents(
        self,
        corpus: str = "default",
        *,
        where: str | None = None,
        q: str | None = None,
        order: Literal["id", "-id", "fetched_at", "-fetched_at"] = "id",
        limit: int | None = None,
        cursor: str | None = None,
    ) -> models.Page[models.DocumentView]:
        """List the documents of a corpus, or those that meet a condition, as `trust >= .5 and language = "en"`, and
        have the text `q` in title, address or id."""

    @request("GET /v1/documents/count")
    def count_documents(
        self, corpus: str = "default", *, where: str | None = None, q: str | None = None
    ) -> models.DocumentCount:
        """Count what `documents` lists."""

    @request("GET /v1/documents/{document_id}")
    def document(self, document_id: str, corpus: str = "default") -> models.DocumentView:
        """Return a document by its id, URL or path, without its text."""

    @request("GET /v1/documents/by-url")
    def document_by_url(self, url: str, corpus: str = "default") -> models.DocumentView:
        """Return the document of a URL or path."""

    @request("GET /v1/documents/{document_id}/chunks")
    def document_chunks(
        self, document_id: str, corpus: str = "default", *, limit: int | None = None, cursor: str | None = None
    ) -> models.Page[models.ChunkView]:
        """List the passages of a document, in its order."""

    @request("GET /v1/documents/{document_id}/links")
    def document_links(self, document_id: str, corpus: str = "default") -> models.Page[models.LinkView]:
        """List the links of a document, and which of them lead to documents of the corpus."""

    @operation
    def change_document(
        self, document_id: str, metadata: Mapping[str, Any], corpus: str = "default"
    ) -> Call[models.RunAccepted]:
        """Set values of a document's metadata; None removes one. Nothing is embedded again."""
        query = queried({"corpus": corpus})
        return Call("PATCH", "/v1/documents/{}", (document_id,), query, {"metadata": metadata}, is_repeatable=True)

    @request("POST /v1/code_search", in_body=True, is_repeatable=True)
    def code_search(self, /, query: str, corpus: str = "default", **fields: Any) -> models.Retrieval:
        """Search the code of a corpus by a question, a name or a piece of code. `fields`: repo_path, language, top_k,
        max_tokens."""

    @operation
    def add_documents(
        self,
        /,
        documents: Sequence[Mapping[str, Any]],
        corpus: str = "default",
        *,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Call[models.RunAccepted]:
        """Submit documents, or URLs to crawl; the run is finished when they can be searched.

        A document has a url, id or file_path; text, html, or data (base64) with its media_type; and may have title,
        author, published_at, metadata and signature. `fields`: create_corpus, limits, render, screenshot.
        """
        return starting("/v1/documents", {"corpus": corpus, "documents": documents, **fields}, idempotency_key)

    @operation
    def upload(
        self,
        /,
        files: Mapping[str, bytes],
        corpus: str = "default",
        *,
        idempotency_key: str | None = None,
        **fields: str,
    ) -> Call[models.Upload]:
        """Upload files, archives too, by their names or paths. Returns one line for each file; `upload_status` says
        what became of them since. `fields`: document_id (for one file), metadata (a JSON object),
        again (`true`: files too that are there already).

        Everything is held in memory; send larger folders in parts.
        """
        boundary = secrets.token_hex(16)
        parts = [(f'name="{name}"', value.encode()) for name, value in {"corpus": corpus, **fields}.items()]
        for name, content in files.items():
            quoted = name.replace("\\", "/").replace('"', "%22").replace("\r", "").replace("\n", "")
            parts.append((f'name="file"; filename="{quoted}"', content))
        told = [
            b"--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (boundary.encode(), named.encode(), content)
            for named, content in parts
        ]
        call: Call[models.Upload] = starting(
            "/v1/uploads", b"".join([*told, b"--%s--\r\n" % boundary.encode()]), idempotency_key
        )
        return replace(call, content_type=f"multipart/form-data; boundary={boundary}", patience_seconds=UPLOAD_SECONDS)

    @request("GET /v1/uploads/{upload_id}")
    def upload_status(self, upload_id: str) -> models.Upload:
        """Return what has become of each file of an upload."""

    @operation
    def scrape(
        self,
        /,
        url: str,
        corpus: str = "default",
        *,
        wait: bool = True,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Call[models.Scraped | models.RunAccepted]:
        """Read one page, and return it as it was inspected. Without `wait`, or if it is late, returns the run's
        acceptance. `fields`: index, create_corpus, render."""
        call = starting("/v1/scrape", {"url": url, "corpus": corpus, "wait": wait, **fields}, idempotency_key)
        return replace(call, answer={200: "Scraped", 202: "RunAccepted"}, patience_seconds=SITE_SECONDS)

    @request("GET /v1/scrape/{run_id}")
    def scraped(self, run_id: str) -> models.Scraped:
        """Return the page that a run of `scrape` has read."""

    @operation
    def map_site(
        self,
        /,
        url: str,
        corpus: str = "default",
        *,
        wait: bool = True,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Call[models.Mapped | models.RunAccepted]:
        """List the addresses of a site, from its sitemaps and the links of one page. `fields`: search, limit, include,
        exclude, reach, render."""
        call = starting("/v1/map", {"url": url, "corpus": corpus, "wait": wait, **fields}, idempotency_key)
        return replace(call, answer={200: "Mapped", 202: "RunAccepted"}, patience_seconds=SITE_SECONDS)

    @request("GET /v1/map/{run_id}")
    def mapped(self, run_id: str, limit: int = 1_000, after: int = 0) -> models.Mapped:
        """Return addresses that a run of `map_site` has listed, `limit` of them after the first `after`."""

    @operation
    def crawl(
        self, /, url: str, corpus: str = "default", *, idempotency_key: str | None = None, **fields: Any
    ) -> Call[models.RunAccepted]:
        """Crawl a site from one page on. `fields`: create_corpus, limit, max_depth, include, exclude, reach,
        limits, render, screenshot."""
        return starting("/v1/crawl", {"url": url, "corpus": corpus, **fields}, idempotency_key)

    @request("GET /v1/schedules")
    def schedules(self, *, limit: int | None = None, cursor: str | None = None) -> models.Page[models.Schedule]:
        """List the schedules of this key, for an operator those of its corpora, the oldest first."""

    @request("POST /v1/schedules", in_body=True)
    def create_schedule(self, /, **fields: Any) -> models.Schedule:
        """Make a schedule: one of crawl, map, scrape, documents and gate, with the fields of that request; every (ISO
        8601, or seconds) or cron, with time_zone; name."""

    @request("GET /v1/schedules/{schedule_id}")
    def schedule(self, schedule_id: str) -> models.Schedule:
        """Return a schedule, and how it went last."""

    @request("PATCH /v1/schedules/{schedule_id}", in_body=True, is_repeatable=True)
    def change_schedule(self, /, schedule_id: str, **fields: Any) -> models.Schedule:
        """Change fields of `create_schedule`, or enabled: false pauses it."""

    @request("DELETE /v1/schedules/{schedule_id}")
    def delete_schedule(self, schedule_id: str) -> None:
        """Remove a schedule. A run that it has begun goes on."""

    @operation
    def run_schedule(self, schedule_id: str, *, idempotency_key: str | None = None) -> Call[models.RunAccepted]:
        """Begin a run of a schedule now."""
        key = idempotency_key or secrets.token_hex(16)
        return Call("POST", "/v1/schedules/{}/run", (schedule_id,), idempotency_key=key)

    @request("GET /v1/documents/{document_id}/text")
    def document_text(
        self, document_id: str, corpus: str = "default", start_line: int = 1, end_line: int | None = None
    ) -> models.DocumentText:
        """Return the extracted text of a document, lines `start_line` to `end_line` as citations number them."""

    @request("DELETE /v1/documents/{document_id}")
    def delete_document(self, document_id: str, corpus: str = "default") -> models.RunAccepted:
        """Delete a document. Raises `NotFound` where it is already gone."""

    @request("DELETE /v1/documents", in_body=True)
    def forget(self, /, corpus: str = "default", **fields: Any) -> models.RunAccepted:
        """Remove documents with every trace of them, and keep them out. Needs an operator. `fields`: one of url,
        url_prefix, document_id, run_id, submitted_by, filters and where; keep_out, note."""

    @operation
    def would_forget(self, /, corpus: str = "default", **fields: Any) -> Call[models.WouldForget]:
        """Count the documents that `forget` would remove, and name the first. `fields` as of `forget`."""
        query = queried({"dry_run": True})
        return Call("POST", "/v1/forget", query=query, body={"corpus": corpus, **fields}, is_repeatable=True)

    @request("POST /v1/forgotten/prove", in_body=True, is_repeatable=True)
    def prove_forgotten(self, /, corpus: str = "default", **fields: Any) -> models.ForgetProof:
        """Prove that nothing is left of forgotten documents. `fields` as of `forget`. Needs an operator."""

    @request("GET /v1/forgotten")
    def forgotten(self) -> models.Page[models.ForgottenEntry]:
        """List the entries that are neither crawled nor taken in, the latest first. Needs an operator."""

    @request("POST /v1/forgotten", in_body=True)
    def keep_out(self, /, **fields: Any) -> models.Page[models.ForgottenEntry]:
        """Add an entry that is neither crawled nor taken in: corpus, kind, value, note. Needs an operator."""

    @request("DELETE /v1/forgotten/{entry_id}")
    def let_in(self, entry_id: str, note: str = "") -> models.ForgottenEntry:
        """Remove an entry of `forgotten`, so that it is let in again. Needs an operator."""

    @request("POST /v1/memory/iterations", in_body=True, is_repeatable=True)
    def record_iteration(
        self, /, data: str | dict[str, Any] | list[Any], project: str, feature: str, **fields: Any
    ) -> models.IterationAccepted:
        """Record an iteration: an agent's output, as text or JSON. The same again adds nothing. `fields`: format,
        context."""

    @request("GET /v1/memory/recall")
    def recall(
        self, query: str, project: str, feature: str, *, top_k: int = 8, task_id: int | None = None
    ) -> models.Recall:
        """Return the entries of one feature's memory that match a query, the best first."""

    @operation
    def memory_prompt(
        self,
        project: str,
        feature: str,
        *,
        iteration: int | None = None,
        session: str | None = None,
        task_id: int | None = None,
        query: str | None = None,
        max_tokens: int | None = None,
    ) -> Call[models.PromptBlock]:
        """Return a block for the next iteration's prompt. Its text is recorded, so that echoes of it do not count."""
        of = {"project": project, "feature": feature, "iteration": iteration, "session": session}
        more = {"task_id": task_id, "query": query or None, "max_tokens": max_tokens}
        return Call("POST", "/v1/memory/prompt", query=queried(of | more), is_repeatable=True)

    @request("POST /v1/memory/learnings", in_body=True, is_repeatable=True)
    def add_learning(
        self, /, text: str, project: str, feature: str, *, reason: str, **fields: Any
    ) -> models.LearningResult:
        """Add a learning; the same one again is counted. `fields`: source, iteration, task_id."""

    @operation
    def change_learning(
        self, /, learning_id: str, project: str, feature: str, **changes: Any
    ) -> Call[models.FeatureLearning]:
        """Change or review one learning: text, reason, task_id, reviewed, rejected, keep_over, source, note."""
        query = queried({"project": project, "feature": feature})
        return Call("PATCH", "/v1/memory/learnings/{}", (learning_id,), query, changes, is_repeatable=True)

    @request("GET /v1/memory/learnings")
    def learnings(
        self, project: str, feature: str, *, state: str | None = None, task_id: int | None = None
    ) -> models.Learnings:
        """Return the learnings of a feature, with the pairs that differ."""

    @request("GET /v1/memory/status")
    def memory_status(self, project: str) -> models.RagStatus:
        """Return the state of a project's memory: index, embedder, counts, and how far the index is behind."""

    @request("GET /v1/memory/export")
    def memory_export(self, project: str, feature: str) -> str:
        """Return everything in a feature's journal: JSON, an entry a line, the oldest first."""

    @request("GET /v1/memory/features")
    def memory_features(self, project: str) -> models.Page[str]:
        """List the features of a project that have a journal, sorted."""

    @request("POST /v1/memory/undo")
    def undo_repetition(self, entry_id: str, project: str, feature: str) -> models.Page[models.FeatureLearning]:
        """Undo counting a text as a repetition, and return the learning that it becomes. Needs an operator. Raises
        `NotFound` where the entry counted nothing, or was undone before."""

    @request("POST /v1/memory/prune")
    def prune_learnings(self, project: str, feature: str) -> models.Page[models.FeatureLearning]:
        """Put aside learnings that a rule found once, long ago, and nobody used or reviewed. Needs an operator."""

    @request("POST /v1/memory/rebuild", is_repeatable=True)
    def rebuild_memory(self, project: str, feature: str | None = None) -> models.Page[models.RunAccepted]:
        """Bring the index up to the journals; returns the runs that do so. Needs an operator."""

    @request("GET /v1/memory/proof")
    def prove_memory(self, project: str, feature: str) -> models.MemoryProof:
        """Compare a feature's memory and index with its journal."""

    @request("DELETE /v1/memory/orphans")
    def drop_memory_orphans(self, project: str) -> models.Page[str]:
        """Empty the project's collections that have no journal; returns their names. Needs an operator."""

    @operation
    def graph_query(
        self, /, query: str, corpus: str = "default", *, timeout_seconds: float | None = None, **fields: Any
    ) -> Call[models.CypherResult]:
        """Query the graph of a corpus in Cypher, which only reads. `fields`: parameters, limit, server. Raises
        `InvalidQuestion` if the query cannot be read; names line and column."""
        told = {} if timeout_seconds is None else {"timeout_seconds": timeout_seconds}
        body = {"query": query, "corpus": corpus, **told, **fields}
        patience = timeout_seconds or CYPHER_SECONDS
        return Call("POST", "/v1/graph/query", body=body, is_repeatable=True, patience_seconds=patience)

    @request("GET /v1/graph/nearest")
    def graph_nearest(self, question: str, corpus: str = "default", top_k: int = 8) -> models.NearestDocuments:
        """Return documents near to a question, by the vector index of the instance's Neo4j or Memgraph."""

    @operation
    def graph_neighbours(
        self,
        node: str,
        corpus: str = "default",
        *,
        direction: Literal["out", "in"] | None = None,
        edges: Sequence[str] = (),
        limit: int = 50,
        kind: str | None = None,
    ) -> Call[models.Neighbours]:
        """Return the neighbours of a node: its label and key, a document's path, or a symbol's unambiguous name."""
        query = {"corpus": corpus, "direction": direction, "edge": list(edges), "limit": limit, "kind": kind}
        return Call("GET", "/v1/graph/neighbours/{}", (node,), queried(query))

    @request("GET /v1/graph/linked")
    def graph_linked(
        self, module: str, corpus: str = "default", *, failing: bool = True, top_k: int = 10, kind: str | None = None
    ) -> models.Linked:
        """Return the failing tests that touch a module, and the documents (docs, code or tests) linked to them."""

    @request("GET /v1/graph/status")
    def graph_status(self, corpus: str = "default") -> models.GraphStatus:
        """Return the state of a corpus's graph."""

    @request("GET /v1/graph")
    def graphs(self) -> models.Page[models.GraphStatus]:
        """Return the state of each corpus's graph, for the corpora that the key may see."""

    @operation
    def prove_graph(
        self, corpus: str = "default", *, patience_seconds: float = PROOF_SECONDS
    ) -> Call[models.GraphProof]:
        """Read every document anew, and compare with the graph that grew. Changes nothing. Needs an operator."""
        route, body = "/v1/graph/prove", {"corpus": corpus}
        return Call("POST", route, body=body, is_repeatable=True, patience_seconds=patience_seconds)

    @request("POST /v1/graph/rebuild", in_body=True)
    def rebuild_graph(self, corpus: str = "default") -> models.RunAccepted:
        """Read every document into the graph anew. Needs an operator."""

    @request("GET /health/neo4j", also_good=(503,))
    def graph_server(self) -> models.GraphServerHealth:
        """Check that the instance's Neo4j or Memgraph answers."""

    @request("GET /v1/dead-letters")
    def dead_letters(self, /, **filters: Any) -> models.Page[models.DeadLetterSummary]:
        """List events that could not be handled, the latest first. All calls on dead letters need an operator.
        `filters`: stage, reason, kind, fingerprint, run_id, corpora, since, until, status, limit, cursor."""

    @request("GET /v1/dead-letters/groups")
    def dead_letter_groups(self, /, **filters: Any) -> models.Page[models.DeadLetterGroup]:
        """Count dead letters that failed alike, with an example. `filters` as of `dead_letters`."""

    @request("GET /v1/dead-letters/{letter_id}")
    def dead_letter(self, letter_id: str) -> models.DeadLetterView:
        """Return one dead letter, whole."""

    @operation
    def edit_dead_letter(self, letter_id: str, payload: bytes, note: str = "") -> Call[models.DeadLetterView]:
        """Replace a dead letter's payload by another whole event; the old one is kept."""
        return Call("PUT", "/v1/dead-letters/{}/payload", (letter_id,), queried({"note": note}), payload)

    @request("POST /v1/dead-letters/{letter_id}/replay")
    def replay_dead_letter(self, letter_id: str, *, force: bool = False, note: str = "") -> models.Replayed:
        """Try the event of a dead letter again."""

    @request("DELETE /v1/dead-letters/{letter_id}")
    def purge_dead_letter(self, letter_id: str, note: str = "") -> models.Purged:
        """Purge one dead letter: removes payload and stack, keeps the facts."""

    @request("POST /v1/dead-letters/purge", in_body=True)
    def purge_dead_letters(
        self, filter: Mapping[str, Any], *, confirm: int | None = None, dry_run: bool = False, note: str = ""
    ) -> models.Purged:
        """Purge many dead letters: call with `dry_run` first, and `confirm` the count that it returns."""

    @request("POST /v1/replays", in_body=True, answer={200: "ReplayPlan", 202: "ReplayView"})
    def replay(
        self, /, filter: Mapping[str, Any], *, per_second: float = 10.0, dry_run: bool = False, **fields: Any
    ) -> models.ReplayView | models.ReplayPlan:
        """Put many dead letters back to work, `per_second` at a time; with `dry_run` return the plan only. `filter` as
        of `dead_letters`; `fields`: force, confirm, note."""

    @request("GET /v1/replays")
    def replays(self, limit: int = 50, cursor: str | None = None) -> models.Page[models.ReplayView]:
        """List bulk replays, the newest first."""

    @request("GET /v1/replays/{replay_id}")
    def bulk_replay(self, replay_id: str) -> models.ReplayView:
        """Return the progress of a bulk replay."""

    @request("GET /v1/replays/{replay_id}/actions")
    def replay_actions(self, replay_id: str) -> models.Page[models.OperatorAction]:
        """List operators' actions on a bulk replay."""

    @request("POST /v1/replays/{replay_id}/pause")
    def pause_replay(self, replay_id: str, note: str = "") -> models.ReplayView:
        """Pause a bulk replay; work under way goes on."""

    @request("POST /v1/replays/{replay_id}/resume")
    def resume_replay(self, replay_id: str, note: str = "") -> models.ReplayView:
        """Resume a paused bulk replay."""

    @request("POST /v1/replays/{replay_id}/abort")
    def abort_replay(self, replay_id: str, note: str = "") -> models.ReplayView:
        """End a bulk replay for good; work under way goes on."""

    @request("GET /v1/quarantine")
    def quarantined(
        self, /, corpora: str | Sequence[str] | None = None, *, limit: int = MOST_HELD_AT_ONCE, **filters: Any
    ) -> models.Page[models.QuarantinedChunk]:
        """List chunks that the guard holds back, the latest first. All calls on the quarantine need an operator.
        `filters`: rule, state, url_prefix, document_id, run_id, cursor."""

    @request("GET /v1/quarantine/{held_id}")
    def quarantined_text(self, held_id: str) -> models.QuarantinedText:
        """Return one chunk that is held back, with its text. Do not act on the text."""

    @request("POST /v1/quarantine/{held_id}/release", is_repeatable=True)
    def release_quarantined(self, held_id: str, note: str = "") -> models.Released:
        """Release a held chunk, into the index as well."""

    @request("POST /v1/quarantine/{held_id}/purge", is_repeatable=True)
    def purge_quarantined(self, held_id: str, note: str = "") -> models.QuarantinedText:
        """Remove the text of a chunk that is held back; the facts stay."""

    @request("GET /v1/keys")
    def keys(self) -> models.Page[models.ApiKey]:
        """List every API key, without its secret. All calls on keys need an operator of all corpora."""

    @request("POST /v1/keys", in_body=True)
    def create_key(
        self,
        name: str,
        role: str = "agent",
        corpora: Sequence[str] = (),
        *,
        expires_at: datetime | str | None = None,
        requests_per_minute: int | None = None,
    ) -> models.MadeKey:
        """Make a key. Its secret, `key`, is in this answer alone. Without corpora it covers all of them."""

    @request("PATCH /v1/keys/{key_id}", in_body=True, is_repeatable=True)
    def change_key(self, /, key_id: str, **limits: Any) -> models.ApiKey:
        """Change `expires_at` and `requests_per_minute` of a key, those that are given; None takes one away."""

    @request("DELETE /v1/keys/{key_id}")
    def revoke_key(self, key_id: str) -> models.ApiKey:
        """Put a key out of force for good."""

    @request("GET /v1/flags")
    def flags(self) -> models.Page[models.FlagState]:
        """List every feature flag, with the authority that decides it."""

    @request("GET /v1/flags/{name}/history")
    def flag_history(self, name: str) -> models.Page[models.OperatorAction]:
        """List operators' actions on a flag, the oldest first. Needs an operator."""

    @request("PUT /v1/flags/{name}", in_body=True)
    def set_flag(
        self, name: str, enabled: bool, *, share: float | None = None, kill: bool = False, note: str = ""
    ) -> models.FlagResult:
        """Switch a flag on, for a share of the runs or for all, or off; `kill` holds it off, whatever else decides.
        Needs an operator."""

    @request("DELETE /v1/flags/{name}")
    def reset_flag(self, name: str, note: str = "") -> models.FlagResult:
        """Remove the stored setting of a flag, its kill switch too. Needs an operator."""

    @request("GET /v1/defences")
    def defences(self) -> models.Page[models.DefenceView]:
        """List the gate's defences: which are active, and why. Needs an operator of all corpora."""

    @request("DELETE /v1/defences/{name}")
    def lift_defence(
        self, name: str, *, profile: str | None = None, corpus: str | None = None, note: str = ""
    ) -> models.Page[models.DefenceView]:
        """Lift a defence before it heals. Needs an operator of all corpora."""

    @request("PUT /v1/defences/{name}", in_body=True)
    def pin_defence(
        self, name: str, pin: str, *, profile: str | None = None, corpus: str | None = None, note: str = ""
    ) -> models.Page[models.DefenceView]:
        """Hold a defence on or off, until it is lifted. Needs an operator of all corpora."""

    @request("GET /v1/webhooks")
    def webhooks(self) -> models.Page[models.Webhook]:
        """List the webhooks of this key, the oldest first; for an operator of all corpora, all of them."""

    @request("POST /v1/webhooks", in_body=True)
    def create_webhook(self, /, url: str, **fields: Any) -> models.WebhookMade:
        """Have events posted to a URL, signed by Standard Webhooks with the `secret` that only this answer holds.
        `fields`: types, corpora, description."""

    @request("GET /v1/webhooks/{webhook_id}")
    def webhook(self, webhook_id: str) -> models.Webhook:
        """Return a webhook, and how its deliveries fare."""

    @request("PATCH /v1/webhooks/{webhook_id}", in_body=True, is_repeatable=True)
    def change_webhook(self, /, webhook_id: str, **changes: Any) -> models.Webhook:
        """Change a webhook: url, types, corpora, description, enabled."""

    @request("DELETE /v1/webhooks/{webhook_id}")
    def delete_webhook(self, webhook_id: str) -> None:
        """Remove a webhook with the log of its deliveries."""

    @request("GET /v1/webhooks/{webhook_id}/deliveries")
    def webhook_deliveries(
        self, webhook_id: str, *, status: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> models.Page[models.WebhookDelivery]:
        """List the deliveries to a webhook, the latest first, each with its last attempt."""

    @request("POST /v1/webhooks/{webhook_id}/rotate")
    def rotate_webhook(self, webhook_id: str) -> models.WebhookSecret:
        """Make a new secret; for a day the old one signs as well."""

    @request("POST /v1/webhooks/{webhook_id}/test")
    def test_webhook(self, webhook_id: str) -> models.WebhookDelivery:
        """Send a delivery of type `webhook.test`; its outcome stands in `webhook_deliveries`."""

    @request("POST /v1/webhooks/{webhook_id}/replay", in_body=True, is_repeatable=True)
    def replay_webhook(self, /, webhook_id: str, **fields: Any) -> models.Redelivered:
        """Send deliveries again, under the ids that they had: ids, or since (and until); status."""

    @request("GET /v1/stages")
    def stages(self) -> models.Page[models.StageView]:
        """List the stages: the work waiting in each, and which are paused. Needs an operator of all corpora."""

    @request("GET /v1/stages/figures")
    def stage_figures(self, hours: int = 1) -> models.Page[models.StageFigures]:
        """Return throughput, waits and failures of each stage. Needs an operator of all corpora."""

    @request("GET /v1/stages/{stage}/backlog")
    def stage_backlog(self, stage: str) -> models.StageBacklog:
        """Count the events of a stage that need a worker."""

    @request("POST /v1/stages/{stage}/pause", is_repeatable=True)
    def pause_stage(self, stage: str, why: str) -> models.Page[models.StageView]:
        """Stop handing out work of a stage. Needs an operator of all corpora."""

    @request("POST /v1/stages/{stage}/resume", is_repeatable=True)
    def resume_stage(self, stage: str) -> models.Page[models.StageView]:
        """Resume a paused stage. Needs an operator of all corpora."""

    @request("POST /v1/stages/{stage}/scale", in_body=True, is_repeatable=True)
    def scale_stage(self, stage: str, workers: int | None, *, note: str = "") -> models.Scaled:
        """Set how many events of a stage to handle at once; None goes back to the settings. Needs an operator of all
        corpora."""

    @request("GET /v1/overview")
    def overview(self) -> models.Overview:
        """Return an instance at a glance. Needs an operator of all corpora."""

    @request("GET /v1/hosts")
    def hosts(self, days: int = 1, limit: int = 100) -> models.Page[models.HostView]:
        """List the crawl's requests to each host, the most requested first. Needs an operator of all corpora."""

    @request("GET /v1/hosts/{host}")
    def host(self, host: str, days: int = 1, url: str | None = None) -> models.HostState:
        """Return what the crawl did to one host, how it stands, and what its robots.txt says of `url`."""

    @request("POST /v1/hosts/{host}/rest", is_repeatable=True)
    def rest_host(self, host: str, seconds: float, note: str = "") -> models.HostState:
        """Send no request to a host for a while; 0 seconds ends that. Needs an operator of all corpora."""

    @request("POST /v1/crawl/explain", patience_seconds=SITE_SECONDS)
    def explain_crawl(self, url: str, corpus: str = "default") -> models.ExplainedCrawl:
        """Fetch one page and return each decision about it; nothing is recorded. Needs an operator."""

    @request("GET /v1/config")
    def config(self) -> models.Page[models.SettingView]:
        """List every setting of the server, and where its value comes from. Needs an operator of all corpora."""

    @request("GET /v1/actions")
    def actions(
        self,
        operator: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        *,
        limit: int = 100,
        cursor: str | None = None,
    ) -> models.Page[models.RecordedAction]:
        """List what operators did, the latest first. Needs an operator of all corpora."""

    @request("GET /v1/corpora/{corpus}/state")
    def corpus_state(self, corpus: str) -> models.CorpusState:
        """Return a corpus's generations, lags, ages of documents, and how much is held back."""

    @request("POST /v1/corpora/{corpus}/generations/{generation}/verify", patience_seconds=PROOF_SECONDS)
    def verify_generation(self, corpus: str, generation: str) -> models.Generation:
        """Read every file of a generation and compare it with its hash. Needs an operator."""

    @request("POST /v1/corpora/{corpus}/generations/{generation}/serve", patience_seconds=PROOF_SECONDS)
    def serve_generation(self, corpus: str, generation: str, note: str = "") -> models.Generation:
        """Serve another generation, until there are new records to publish. Needs an operator."""

    @request("POST /v1/corpora/{corpus}/recheck")
    def recheck(self, corpus: str) -> models.RunAccepted:
        """Request the pages that are due again. Needs an operator."""

    @request("GET /v1/memory/projects")
    def memory_projects(self, *, limit: int = 100, cursor: str | None = None) -> models.Page[models.RememberedProject]:
        """List the projects that have a memory, with the features that the key may touch."""

    @request("GET /v1/evaluation/hours")
    def plans_by_hour(self, hours: int = 24) -> models.Page[models.PlanHour]:
        """Count the decisions of each hour by plan. Needs an operator of all corpora."""

    @request("GET /v1/runs/{run_id}/trace")
    def trace(self, run_id: str) -> models.Timeline:
        """Return where the time of a run went, its waits by name. Operators of all corpora may give a trace's id."""

    @request("GET /v1/runs/{run_id}/explanation")
    def explanation(self, run_id: str) -> models.Explanation:
        """Return the gate's decision on a run, and the same one computed again from its recorded inputs."""

    @request("GET /v1/profiles")
    def profiles(self) -> models.Page[models.GateProfile]:
        """List the profiles of the gate, with their thresholds."""

    @request("POST /v1/evaluation/rebuild", patience_seconds=REBUILD_SECONDS, is_repeatable=True)
    def rebuild_evaluation(self) -> models.Rebuilt:
        """Derive the evaluation of each run again from its events. Needs an operator of all corpora."""

    @request("GET /v1/evaluation")
    def evaluation(
        self, *, since: datetime | str | None = None, by: str | None = None, profile: str | None = None
    ) -> models.Evaluation:
        """Return the outcomes of the runs. Needs an operator of all corpora."""

    @request("GET /v1/rollouts")
    def rollouts(self) -> models.Page[models.Rollout]:
        """List every model of the gate that was tried, the active one first. Needs an operator of all corpora."""

    @request("POST /v1/rollouts", in_body=True)
    def apply_rollout(self, /, action: str, **fields: Any) -> models.Rollout:
        """Try a model (`shadow`, `canary`), promote it, or end its part. `fields`: version, stages, unit, note."""

    @request("GET /v1/rollouts/{version}/report")
    def rollout_report(self, version: str) -> models.AbReport:
        """Return the arms of a model's trial side by side. Needs an operator of all corpora."""

    @request("GET /healthz", also_good=(503,))
    def health(self) -> models.Health:
        """Return the state of each part of the server, healthy or not."""

    @request("GET /livez")
    def is_alive(self) -> dict[str, bool]:
        """Return whether the server's process answers, whatever the state of its parts."""

    @request("GET /readyz", also_good=(503,))
    def readiness(self) -> models.Health:
        """Return the state of the parts without which the server takes no request."""

    @request("GET /metrics")
    def metrics(self) -> str:
        """Return the server's metrics in Prometheus' text format. Needs an operator of all corpora."""
