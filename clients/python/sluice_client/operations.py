"""Every operation of the HTTP interface. `SluiceClient` and `AsyncSluiceClient` have them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from sluice_client.calls import Call, get, operation, post, queried, starting

if TYPE_CHECKING:
    from sluice_client import models

DEFAULT_DEADLINE_SECONDS = 60.0
"""Seconds that a run without a deadline may take, by the server's default."""
CYPHER_SECONDS = 5.0
"""Seconds for a Cypher query that sets no limit, by the server's default."""
REBUILD_SECONDS = PROOF_SECONDS = 600.0
"""Seconds for reading everything anew."""
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
        prompt, session_id, memory.
        """
        call = starting("/v1/gate", {"query": query, "corpus": corpus, "wait": wait, **fields}, idempotency_key)
        patience = (fields.get("deadline_seconds") or DEFAULT_DEADLINE_SECONDS) if wait else 0.0
        return _answered(call, {200: "RunView", 202: "RunAccepted"}, patience_seconds=patience)

    @operation
    def runs(
        self, *, corpus: str | None = None, status: str | None = None, kind: str | None = None, limit: int | None = None
    ) -> Call[list[models.RunSummary]]:
        """List recent runs, the newest first."""
        return get("/v1/runs", corpus=corpus, status=status, kind=kind, limit=limit)

    @operation
    def run(self, run_id: str) -> Call[models.RunView]:
        """Return everything about a run."""
        return get("/v1/runs/{}", run_id)

    @operation
    def cancel(self, run_id: str) -> Call[models.RunView]:
        """Stop the open work of a run."""
        return Call("DELETE", "/v1/runs/{}", (run_id,))

    @operation
    def feedback(self, /, run_id: str, **fields: Any) -> Call[dict[str, str]]:
        """Give feedback on a run's answer: chunk_ids_used, outcome, rating, signal, note, response. It counts once for
        each run, key and signal."""
        return post("/v1/feedback", body={"run_id": run_id, **fields}, is_repeatable=True)

    @operation
    def query(self, /, query: str, corpus: str = "default", **fields: Any) -> Call[models.Retrieval]:
        """Search the corpus, without a run.

        `fields`: top_k, strategy, filters, trust_threshold, max_tokens, diversity, neighbours, max_per_domain,
        duplicate_threshold, rerank, confidence_floor, prompt, minimum_journal_offset.
        """
        return post("/v1/query", body={"query": query, "corpus": corpus, **fields}, is_repeatable=True)

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
        author, published_at, metadata and signature. `fields`: limits, render, screenshot.
        """
        return starting("/v1/documents", {"corpus": corpus, "documents": documents, **fields}, idempotency_key)

    @operation
    def document_text(
        self, document_id: str, corpus: str = "default", start_line: int = 1, end_line: int | None = None
    ) -> Call[models.DocumentText]:
        """Return the extracted text of a document, lines `start_line` to `end_line` as citations number them."""
        route = "/v1/documents/{}/text"
        return get(route, document_id, corpus=corpus, start_line=start_line, end_line=end_line)

    @operation
    def delete_document(self, document_id: str, corpus: str = "default") -> Call[models.RunAccepted]:
        """Delete a document. Raises `NotFound` where it is already gone."""
        return Call("DELETE", "/v1/documents/{}", (document_id,), queried({"corpus": corpus}))

    @operation
    def forget(self, /, corpus: str = "default", **fields: Any) -> Call[models.RunAccepted]:
        """Remove documents with every trace of them, and keep them out. Needs an operator. `fields`: one of url,
        url_prefix, document_id, run_id, submitted_by and filters; keep_out, note."""
        return Call("DELETE", "/v1/documents", body={"corpus": corpus, **fields})

    @operation
    def prove_forgotten(self, /, corpus: str = "default", **fields: Any) -> Call[models.ForgetProof]:
        """Prove that nothing is left of forgotten documents. `fields` as of `forget`. Needs an operator."""
        return post("/v1/forgotten/prove", body={"corpus": corpus, **fields}, is_repeatable=True)

    @operation
    def count_forgettable(self, /, corpus: str = "default", **fields: Any) -> Call[models.Meant]:
        """Count the served documents that `forget` would remove. `fields` as of `forget`. Needs an operator."""
        return post("/v1/forgotten/count", body={"corpus": corpus, **fields}, is_repeatable=True)

    @operation
    def forgotten(self) -> Call[list[models.ForgottenEntry]]:
        """List the entries that are neither crawled nor taken in, the latest first. Needs an operator."""
        return get("/v1/forgotten")

    @operation
    def keep_out(self, /, **fields: Any) -> Call[list[models.ForgottenEntry]]:
        """Add an entry that is neither crawled nor taken in: corpus, kind, value, note. Needs an operator."""
        return post("/v1/forgotten", body=fields)

    @operation
    def let_in(self, entry_id: str, note: str = "") -> Call[models.ForgottenEntry]:
        """Remove an entry of `forgotten`, so that it is let in again. Needs an operator."""
        return Call("DELETE", "/v1/forgotten/{}", (entry_id,), queried({"note": note}))

    @operation
    def record_iteration(
        self, /, data: str | dict[str, Any] | list[Any], project: str, feature: str, **fields: Any
    ) -> Call[models.IterationAccepted]:
        """Record an iteration: an agent's output, as text or JSON. The same again adds nothing. `fields`: format,
        context."""
        body = {"project": project, "feature": feature, "data": data, **fields}
        return post("/v1/memory/iterations", body=body, is_repeatable=True)

    @operation
    def recall(
        self, query: str, project: str, feature: str, *, top_k: int = 8, task_id: int | None = None
    ) -> Call[models.Recall]:
        """Return the entries of one feature's memory that match a query, the best first."""
        asked = {"project": project, "feature": feature, "query": query, "top_k": top_k, "task_id": task_id}
        return get("/v1/memory/recall", **asked)

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
        return post("/v1/memory/prompt", is_repeatable=True, **of, **more)

    @operation
    def add_learning(
        self, /, text: str, project: str, feature: str, *, reason: str, **fields: Any
    ) -> Call[models.LearningResult]:
        """Add a learning; the same one again is counted. `fields`: source, iteration, task_id."""
        return post(
            "/v1/memory/learnings",
            body={"text": text, "project": project, "feature": feature, "reason": reason, **fields},
            is_repeatable=True,
        )

    @operation
    def change_learning(
        self, /, learning_id: str, project: str, feature: str, **changes: Any
    ) -> Call[models.FeatureLearning]:
        """Change or review one learning: text, reason, task_id, reviewed, rejected, keep_over, source, note."""
        query = queried({"project": project, "feature": feature})
        return Call("PATCH", "/v1/memory/learnings/{}", (learning_id,), query, changes, is_repeatable=True)

    @operation
    def learnings(
        self, project: str, feature: str, *, state: str | None = None, task_id: int | None = None
    ) -> Call[models.Learnings]:
        """Return the learnings of a feature, with the pairs that differ."""
        return get("/v1/memory/learnings", project=project, feature=feature, state=state, task_id=task_id)

    @operation
    def memory_status(self, project: str) -> Call[models.RagStatus]:
        """Return the state of a project's memory: index, embedder, counts, and how far the index is behind."""
        return get("/v1/memory/status", project=project)

    @operation
    def memory_export(self, project: str, feature: str) -> Call[str]:
        """Return everything in a feature's journal: JSON, an entry a line, the oldest first."""
        return get("/v1/memory/export", project=project, feature=feature)

    @operation
    def memory_features(self, project: str) -> Call[list[str]]:
        """List the features of a project that have a journal, sorted."""
        return get("/v1/memory/features", project=project)

    @operation
    def undo_repetition(self, entry_id: str, project: str, feature: str) -> Call[list[models.FeatureLearning]]:
        """Undo counting a text as a repetition, and return the learning that it becomes. Needs an operator. Raises
        `NotFound` where the entry counted nothing, or was undone before."""
        return post("/v1/memory/undo", project=project, feature=feature, entry_id=entry_id)

    @operation
    def prune_learnings(self, project: str, feature: str) -> Call[list[models.FeatureLearning]]:
        """Put aside learnings that a rule found once, long ago, and nobody used or reviewed. Needs an operator."""
        return post("/v1/memory/prune", project=project, feature=feature)

    @operation
    def rebuild_memory(self, project: str, feature: str | None = None) -> Call[list[models.RunAccepted]]:
        """Bring the index up to the journals; returns the runs that do so. Needs an operator."""
        return post("/v1/memory/rebuild", project=project, feature=feature, is_repeatable=True)

    @operation
    def prove_memory(self, project: str, feature: str) -> Call[models.MemoryProof]:
        """Compare a feature's memory and index with its journal."""
        return get("/v1/memory/proof", project=project, feature=feature)

    @operation
    def drop_memory_orphans(self, project: str) -> Call[list[str]]:
        """Empty the project's collections that have no journal; returns their names. Needs an operator."""
        return Call("DELETE", "/v1/memory/orphans", query=queried({"project": project}))

    @operation
    def graph_query(
        self, /, query: str, corpus: str = "default", *, timeout_seconds: float | None = None, **fields: Any
    ) -> Call[models.CypherResult]:
        """Query the graph of a corpus in Cypher, which only reads. `fields`: parameters, limit, server. Raises
        `InvalidQuestion` if the query cannot be read; names line and column."""
        told = {} if timeout_seconds is None else {"timeout_seconds": timeout_seconds}
        call = post("/v1/graph/query", body={"query": query, "corpus": corpus, **told, **fields}, is_repeatable=True)
        return _answered(call, patience_seconds=timeout_seconds or CYPHER_SECONDS)

    @operation
    def graph_nearest(self, question: str, corpus: str = "default", top_k: int = 8) -> Call[models.NearestDocuments]:
        """Return documents near to a question, by the vector index of the instance's Neo4j or Memgraph."""
        return get("/v1/graph/nearest", question=question, corpus=corpus, top_k=top_k)

    @operation
    def graph_neighbours(
        self,
        node: str,
        corpus: str = "default",
        *,
        direction: Literal["out", "in"] | None = None,
        edges: Sequence[str] = (),
        limit: int = 50,
    ) -> Call[models.Neighbours]:
        """Return the neighbours of a node: its label and key, a document's path, or a symbol's unambiguous name."""
        route = "/v1/graph/neighbours/{}"
        return get(route, node, corpus=corpus, direction=direction, edge=list(edges), limit=limit)

    @operation
    def graph_linked(
        self, module: str, corpus: str = "default", *, failing: bool = True, top_k: int = 10
    ) -> Call[models.Linked]:
        """Return the failing tests that touch a module, and the documents that are linked to them."""
        return get("/v1/graph/linked", module=module, corpus=corpus, failing=failing, top_k=top_k)

    @operation
    def graph_status(self, corpus: str = "default") -> Call[models.GraphStatus]:
        """Return the state of a corpus's graph."""
        return get("/v1/graph/status", corpus=corpus)

    @operation
    def graphs(self) -> Call[list[models.GraphStatus]]:
        """Return the state of each corpus's graph, for the corpora that the key may see."""
        return get("/v1/graph")

    @operation
    def prove_graph(
        self, corpus: str = "default", *, patience_seconds: float = PROOF_SECONDS
    ) -> Call[models.GraphProof]:
        """Read every document anew, and compare with the graph that grew. Changes nothing. Needs an operator."""
        call = post("/v1/graph/prove", body={"corpus": corpus}, is_repeatable=True)
        return _answered(call, patience_seconds=patience_seconds)

    @operation
    def rebuild_graph(self, corpus: str = "default") -> Call[models.RunAccepted]:
        """Read every document into the graph anew. Needs an operator."""
        return post("/v1/graph/rebuild", body={"corpus": corpus})

    @operation
    def graph_server(self) -> Call[models.GraphServerHealth]:
        """Check that the instance's Neo4j or Memgraph answers."""
        return _answered(get("/health/neo4j"), also_good=(503,))

    @operation
    def dead_letters(self, /, **filters: Any) -> Call[list[models.DeadLetterSummary]]:
        """List events that could not be handled, the latest first. All calls on dead letters need an operator.
        `filters`: stage, reason, kind, fingerprint, run_id, corpora, since, until, status, limit, before (a
        position)."""
        return get("/v1/dead-letters", **filters)

    @operation
    def dead_letter_groups(self, /, **filters: Any) -> Call[list[models.DeadLetterGroup]]:
        """Count dead letters that failed alike, with an example. `filters` as of `dead_letters`."""
        return get("/v1/dead-letters/groups", **filters)

    @operation
    def dead_letter(self, letter_id: str) -> Call[models.DeadLetterView]:
        """Return one dead letter, whole."""
        return get("/v1/dead-letters/{}", letter_id)

    @operation
    def edit_dead_letter(self, letter_id: str, payload: bytes, note: str = "") -> Call[models.DeadLetterView]:
        """Replace a dead letter's payload by another whole event; the old one is kept."""
        return Call("PUT", "/v1/dead-letters/{}/payload", (letter_id,), queried({"note": note}), payload)

    @operation
    def replay_dead_letter(self, letter_id: str, *, force: bool = False, note: str = "") -> Call[models.Replayed]:
        """Try the event of a dead letter again."""
        return post("/v1/dead-letters/{}/replay", letter_id, force=force, note=note)

    @operation
    def purge_dead_letter(self, letter_id: str, note: str = "") -> Call[models.Purged]:
        """Purge one dead letter: removes payload and stack, keeps the facts."""
        return Call("DELETE", "/v1/dead-letters/{}", (letter_id,), queried({"note": note}))

    @operation
    def purge_dead_letters(
        self, filter: Mapping[str, Any], *, confirm: int | None = None, dry_run: bool = False, note: str = ""
    ) -> Call[models.Purged]:
        """Purge many dead letters: call with `dry_run` first, and `confirm` the count that it returns."""
        body = {"filter": filter, "confirm": confirm, "dry_run": dry_run, "note": note}
        return post("/v1/dead-letters/purge", body=body)

    @operation
    def replay(
        self, /, filter: Mapping[str, Any], *, per_second: float = 10.0, dry_run: bool = False, **fields: Any
    ) -> Call[models.ReplayView | models.ReplayPlan]:
        """Put many dead letters back to work, `per_second` at a time; with `dry_run` return the plan only. `filter` as
        of `dead_letters`; `fields`: force, note."""
        body = {"filter": filter, "per_second": per_second, "dry_run": dry_run, **fields}
        return _answered(post("/v1/replays", body=body), {200: "ReplayPlan", 202: "ReplayView"})

    @operation
    def replays(self, limit: int = 50, before: str | None = None) -> Call[list[models.ReplayView]]:
        """List bulk replays, the newest first."""
        return get("/v1/replays", limit=limit, before=before)

    @operation
    def bulk_replay(self, replay_id: str) -> Call[models.ReplayView]:
        """Return the progress of a bulk replay."""
        return get("/v1/replays/{}", replay_id)

    @operation
    def replay_actions(self, replay_id: str) -> Call[list[models.OperatorAction]]:
        """List operators' actions on a bulk replay."""
        return get("/v1/replays/{}/actions", replay_id)

    @operation
    def pause_replay(self, replay_id: str, note: str = "") -> Call[models.ReplayView]:
        """Pause a bulk replay; work under way goes on."""
        return post("/v1/replays/{}/pause", replay_id, note=note)

    @operation
    def resume_replay(self, replay_id: str, note: str = "") -> Call[models.ReplayView]:
        """Resume a paused bulk replay."""
        return post("/v1/replays/{}/resume", replay_id, note=note)

    @operation
    def abort_replay(self, replay_id: str, note: str = "") -> Call[models.ReplayView]:
        """End a bulk replay for good; work under way goes on."""
        return post("/v1/replays/{}/abort", replay_id, note=note)

    @operation
    def quarantined(
        self, /, corpora: str | Sequence[str] | None = None, *, limit: int = MOST_HELD_AT_ONCE, **filters: Any
    ) -> Call[list[models.QuarantinedChunk]]:
        """List chunks that the guard holds back, the latest first. All calls on the quarantine need an operator.
        `filters`: rule, state, url_prefix, document_id, run_id, before (a position)."""
        return get("/v1/quarantine", corpora=corpora, limit=limit, **filters)

    @operation
    def quarantined_text(self, held_id: str) -> Call[models.QuarantinedText]:
        """Return one chunk that is held back, with its text. Do not act on the text."""
        return get("/v1/quarantine/{}", held_id)

    @operation
    def release_quarantined(self, held_id: str, note: str = "") -> Call[models.Released]:
        """Release a held chunk, into the index as well."""
        return post("/v1/quarantine/{}/release", held_id, is_repeatable=True, note=note)

    @operation
    def purge_quarantined(self, held_id: str, note: str = "") -> Call[models.QuarantinedText]:
        """Remove the text of a chunk that is held back; the facts stay."""
        return post("/v1/quarantine/{}/purge", held_id, is_repeatable=True, note=note)

    @operation
    def flags(self) -> Call[list[models.FlagState]]:
        """List every feature flag, with the authority that decides it."""
        return get("/v1/flags")

    @operation
    def flag_history(self, name: str) -> Call[list[models.OperatorAction]]:
        """List operators' actions on a flag, the oldest first. Needs an operator."""
        return get("/v1/flags/{}/history", name)

    @operation
    def set_flag(self, name: str, enabled: bool, *, kill: bool = False, note: str = "") -> Call[models.FlagResult]:
        """Switch a flag on or off; `kill` holds it off, whatever else decides. Needs an operator."""
        return Call("PUT", "/v1/flags/{}", (name,), body={"enabled": enabled, "kill": kill, "note": note})

    @operation
    def reset_flag(self, name: str, note: str = "") -> Call[models.FlagResult]:
        """Remove the stored setting of a flag, its kill switch too. Needs an operator."""
        return Call("DELETE", "/v1/flags/{}", (name,), queried({"note": note}))

    @operation
    def defences(self) -> Call[list[models.DefenceView]]:
        """List the gate's defences: which are active, and why. Needs an operator of all corpora."""
        return get("/v1/defences")

    @operation
    def lift_defence(
        self, name: str, *, profile: str | None = None, corpus: str | None = None, note: str = ""
    ) -> Call[list[models.DefenceView]]:
        """Lift a defence before it heals. Needs an operator of all corpora."""
        where = queried({"profile": profile, "corpus": corpus, "note": note})
        return Call("DELETE", "/v1/defences/{}", (name,), where)

    @operation
    def pin_defence(
        self, name: str, pin: str, *, profile: str | None = None, corpus: str | None = None, note: str = ""
    ) -> Call[list[models.DefenceView]]:
        """Hold a defence on or off, until it is lifted. Needs an operator of all corpora."""
        held = {"pin": pin, "profile": profile, "corpus": corpus, "note": note}
        return Call("PUT", "/v1/defences/{}", (name,), body=held)

    @operation
    def stages(self) -> Call[list[models.StageView]]:
        """List the stages: the work waiting in each, and which are paused. Needs an operator of all corpora."""
        return get("/v1/stages")

    @operation
    def pause_stage(self, stage: str, why: str) -> Call[list[models.StageView]]:
        """Stop handing out work of a stage. Needs an operator of all corpora."""
        return post("/v1/stages/{}/pause", stage, is_repeatable=True, why=why)

    @operation
    def resume_stage(self, stage: str) -> Call[list[models.StageView]]:
        """Resume a paused stage. Needs an operator of all corpora."""
        return post("/v1/stages/{}/resume", stage, is_repeatable=True)

    @operation
    def hosts(self, days: int = 1, limit: int = 100) -> Call[list[models.HostView]]:
        """List the crawl's requests to each host, the most requested first. Needs an operator of all corpora."""
        return get("/v1/hosts", days=days, limit=limit)

    @operation
    def trace(self, run_id: str) -> Call[models.RunTrace]:
        """Return the steps of a run as a tree, with their times. Operators of all corpora may give a trace's id."""
        return get("/v1/runs/{}/trace", run_id)

    @operation
    def explanation(self, run_id: str) -> Call[models.Explanation]:
        """Return the gate's decision on a run, and the same one computed again from its recorded inputs."""
        return get("/v1/runs/{}/explanation", run_id)

    @operation
    def profiles(self) -> Call[list[models.GateProfile]]:
        """List the profiles of the gate, with their thresholds."""
        return get("/v1/profiles")

    @operation
    def rebuild_evaluation(self) -> Call[models.Rebuilt]:
        """Derive the evaluation of each run again from its events. Needs an operator of all corpora."""
        call = post("/v1/evaluation/rebuild", is_repeatable=True)
        return _answered(call, patience_seconds=REBUILD_SECONDS)

    @operation
    def evaluation(
        self, *, since: datetime | str | None = None, by: str | None = None, profile: str | None = None
    ) -> Call[models.Evaluation]:
        """Return the outcomes of the runs. Needs an operator of all corpora."""
        return get("/v1/evaluation", since=since, by=by, profile=profile)

    @operation
    def rollouts(self) -> Call[list[models.Rollout]]:
        """List every model of the gate that was tried, the active one first. Needs an operator of all corpora."""
        return get("/v1/rollouts")

    @operation
    def apply_rollout(self, /, action: str, **fields: Any) -> Call[models.Rollout]:
        """Try a model (`shadow`, `canary`), promote it, or end its part. `fields`: version, stages, unit, note."""
        return post("/v1/rollouts", body={"action": action, **fields})

    @operation
    def rollout_report(self, version: str) -> Call[models.AbReport]:
        """Return the arms of a model's trial side by side. Needs an operator of all corpora."""
        return get("/v1/rollouts/{}/report", version)

    @operation
    def health(self) -> Call[models.Health]:
        """Return the state of each part of the server, healthy or not."""
        return _answered(get("/healthz"), also_good=(503,))

    @operation
    def metrics(self) -> Call[str]:
        """Return the server's metrics in Prometheus' text format. Needs an operator of all corpora."""
        return get("/metrics")


def _answered(call: Call[Any], answer: Mapping[int, str] | None = None, **more: Any) -> Call[Any]:
    return replace(call, answer=answer or call.answer, **more)
