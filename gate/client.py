"""The Python client: the whole HTTP interface as typed calls.

    with SluiceClient("http://127.0.0.1:8080") as sluice:
        run = sluice.gate("how does heapq keep its invariant", corpus="python")
        print(run.answer.context)

Every call that starts something carries an `Idempotency-Key`, the caller's or a fresh one, and sends the
same one when it tries again, so a question, documents or feedback that were interrupted count once. A deletion
that took effect before its answer was lost is `NotFound` at the second try. Errors come back as the
classes of `contracts.errors`. A client may be shared by threads.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode

import httpx
import stamina
from pydantic import BaseModel, ValidationError

from sluice.contracts.api import (
    DocumentsRequest,
    DocumentText,
    FeedbackRequest,
    GateRequest,
    Health,
    RunAccepted,
    RunView,
    SubmittedDocument,
)
from sluice.contracts.errors import InvalidInput, TimedOut, Unavailable, first_problem
from sluice.contracts.event import Event
from sluice.contracts.graph.api import CypherRequest, CypherResult, GraphStatus, Linked, Neighbours, RebuildRequest
from sluice.contracts.learning.control import FlagState
from sluice.contracts.learning.flags import FlagRequest, FlagResult
from sluice.contracts.memory.api import (
    IterationAccepted,
    IterationSubmission,
    LearningPatch,
    LearningRequest,
    LearningResult,
    Learnings,
    PromptBlock,
    RagStatus,
    Recall,
)
from sluice.contracts.memory.learning import FeatureLearning
from sluice.contracts.operations.forget import ForgetRequest
from sluice.contracts.operations.quarantine import MOST_HELD_AT_ONCE, QuarantinedChunk, Released
from sluice.contracts.retrieval import Query, Retrieval
from sluice.gate.event_stream import Stream
from sluice.gate.problem import parse_error

DEFAULT_DEADLINE_SECONDS = 60.0
"""How long a run that names no deadline may take, as the server's default has it."""
ATTEMPTS = 3
FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 1.0

Answer = TypeVar("Answer", bound=BaseModel)
Request = TypeVar("Request", bound=BaseModel)


class SluiceClient:
    """One server, asked synchronously.

    Args:
        base_url: where the server is, for instance `http://127.0.0.1:8080`.
        api_key: sent as a bearer token; needed where the server asks for keys.
        timeout_seconds: how long one response may take, beyond the deadline of a run that is waited for.
        transport: how requests travel; the network by default.

    Every call raises an error of `contracts.errors`: `InvalidInput` for a field that does not fit,
    `Forbidden`, `NotFound`, `Conflict`, `Overloaded`, and `Unavailable` or `TimedOut` when the server
    does not answer after three tries.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        timeout_seconds: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout_seconds = timeout_seconds
        self._http = httpx.Client(base_url=base_url, headers=headers, timeout=timeout_seconds, transport=transport)

    def __enter__(self) -> SluiceClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def gate(
        self,
        query: str,
        corpus: str = "default",
        *,
        wait: bool = True,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> RunView | RunAccepted:
        """Ask. With `wait` the finished run comes back; without, or past the deadline, its acceptance.

        `fields` are the others of `contracts.api.GateRequest`: profile, session, limits, deadline_seconds,
        plan, seeds, top_k, max_tokens, filters, trust_threshold, diversity, X"""
        request = _request(GateRequest, query=query, corpus=corpus, wait=wait, **fields)
        patience = (request.deadline_seconds or DEFAULT_DEADLINE_SECONDS) if wait else 0.0
        response = self._post("/v1/gate", request, idempotency_key, self._timeout_seconds + patience)
        finished = response.status_code == httpx.codes.OK
        return _parsed(RunView, response) if finished else _parsed(RunAccepted, response)

    def run(self, run_id: str) -> RunView:
        """Everything about a run."""
        return _parsed(RunView, self._send("GET", f"/v1/runs/{quote(run_id, safe='')}"))

    def cancel(self, run_id: str) -> RunView:
        """Stop what is still open of a run."""
        return _parsed(RunView, self._send("DELETE", f"/v1/runs/{quote(run_id, safe='')}"))

    def events(self, run_id: str, after: str | None = None) -> Iterator[Event]:
        """The run's events from the one after id `after` (or the first) until it is finished, as they happen.

        A broken stream is resumed behind the last event that came, as long as each connection brings one.
        """
        path = f"/v1/runs/{quote(run_id, safe='')}/events"
        return iter(Stream(self._http, path, after))

    def query(self, query: str, corpus: str = "default", **fields: Any) -> Retrieval:
        """Search the corpus, without a run. `fields` are the others of `contracts.retrieval.Query`."""
        request = _request(Query, query=query, corpus=corpus, **fields)
        return _parsed(Retrieval, self._post("/v1/query", request, None))

    def document_text(
        self, document_id: str, corpus: str = "default", start_line: int = 1, end_line: int | None = None
    ) -> DocumentText:
        """The extracted text of a document, lines `start_line` to `end_line` as citations number them."""
        asked = {"corpus": corpus, "start_line": start_line, **({} if end_line is None else {"end_line": end_line})}
        place = f"/v1/documents/{quote(document_id, safe='')}/text"
        return _parsed(DocumentText, self._send("GET", f"{place}?{urlencode(asked)}"))

    def add_documents(
        self,
        documents: Sequence[SubmittedDocument | Mapping[str, Any]],
        corpus: str = "default",
        *,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> RunAccepted:
        """Hand documents in, or URLs to crawl; the run is finished when they can be searched."""
        request = _request(DocumentsRequest, corpus=corpus, documents=tuple(documents), **fields)
        return _parsed(RunAccepted, self._post("/v1/documents", request, idempotency_key))

    def delete_document(
        self, document_id: str, corpus: str = "default", *, idempotency_key: str | None = None
    ) -> RunAccepted:
        """Forget a document."""
        path = f"/v1/documents/{quote(document_id, safe='')}"
        return _parsed(RunAccepted, self._send("DELETE", path, _key(idempotency_key), params={"corpus": corpus}))

    def forget(self, corpus: str = "default", **fields: Any) -> RunAccepted:
        """Remove documents with every trace of them, and keep them out; needs an operator's key where keys are asked.

        `fields` are those of `contracts.operations.forget.ForgetRequest`: one of url, url_prefix, document_id, run_id,
        submitted_by and filters; keep_out, note. Tried twice it means the same.
        """
        body = _request(ForgetRequest, corpus=corpus, **fields).model_dump_json(exclude_unset=True).encode()
        headers = {"Content-Type": "application/json"}
        return _parsed(RunAccepted, self._send("DELETE", "/v1/documents", headers, content=body))

    def release_quarantined(self, held_id: str, note: str = "") -> Released:
        """Let a held chunk through, into the index as well; needs an operator's key where keys are asked for."""
        path = f"/v1/quarantine/{quote(held_id, safe='')}/release"
        return _parsed(Released, self._send("POST", path, params={"note": note}))

    def quarantined(self, corpus: str) -> list[QuarantinedChunk]:
        """The latest chunks of a corpus that the guard holds back; needs an operator's key where keys are asked for."""
        params = {"corpora": corpus, "limit": str(MOST_HELD_AT_ONCE)}
        response = self._send("GET", "/v1/quarantine", params=params)
        return [QuarantinedChunk.model_validate(one) for one in response.json()]

    def purge_quarantined(self, held_id: str) -> None:
        """Remove the text of a chunk that is held back; needs an operator's key where keys are asked for."""
        self._send("POST", f"/v1/quarantine/{quote(held_id, safe='')}/purge")

    def flags(self) -> list[FlagState]:
        """Every feature flag, and who decides it."""
        response = self._send("GET", "/v1/flags")
        return [FlagState.model_validate(one) for one in response.json()]

    def set_flag(self, name: str, enabled: bool, *, kill: bool = False, note: str = "") -> FlagResult:
        """Switch a flag on or off; with `kill` hold it off, whatever else decides. Needs an operator's key."""
        body = _request(FlagRequest, enabled=enabled, kill=kill, note=note)
        path = f"/v1/flags/{quote(name, safe='')}"
        headers = {"Content-Type": "application/json"}
        return _parsed(FlagResult, self._send("PUT", path, headers, content=body.model_dump_json().encode()))

    def reset_flag(self, name: str, note: str = "") -> FlagResult:
        """Take back what is stored of a flag, its kill switch too. Needs an operator's key."""
        response = self._send("DELETE", f"/v1/flags/{quote(name, safe='')}", params={"note": note})
        return _parsed(FlagResult, response)

    def feedback(self, run_id: str, *, idempotency_key: str | None = None, **fields: Any) -> None:
        """Say what became of a run's answer: chunk_ids_used, outcome, rating, signal, note, response.

        It counts once for each run, key and signal.
        """
        self._post("/v1/feedback", _request(FeedbackRequest, run_id=run_id, **fields), idempotency_key)

    def record_iteration(
        self, data: str | dict[str, Any] | list[Any], project: str, feature: str, **fields: Any
    ) -> IterationAccepted:
        """Remember an iteration: an agent's output, as text or as the JSON that it is. The same again adds nothing.

        `fields` are the others of `contracts.memory.api.IterationSubmission`: format, context.
        """
        request = _request(IterationSubmission, project=project, feature=feature, data=data, **fields)
        return _parsed(IterationAccepted, self._post("/v1/memory/iterations", request, None))

    def recall(self, query: str, project: str, feature: str, *, top_k: int = 8, task_id: int | None = None) -> Recall:
        """What memory holds on a question, of one feature, the best first."""
        return self._memory(Recall, "recall", project, feature, query=query, top_k=top_k, task_id=task_id)

    def memory_prompt(
        self,
        project: str,
        feature: str,
        *,
        iteration: int | None = None,
        session: str | None = None,
        task_id: int | None = None,
        query: str = "",
        max_tokens: int | None = None,
    ) -> PromptBlock:
        """A block for the next iteration's prompt. What it says is recorded, against echoes."""
        asked = {"iteration": iteration, "session": session, "task_id": task_id, "max_tokens": max_tokens}
        return self._memory(PromptBlock, "prompt", project, feature, query=query, **asked)

    def add_learning(self, text: str, project: str, feature: str, *, reason: str, **fields: Any) -> LearningResult:
        """Add a learning; the same again counts it. `fields`: source, iteration, task_id."""
        request = _request(LearningRequest, text=text, project=project, feature=feature, reason=reason, **fields)
        return _parsed(LearningResult, self._post("/v1/memory/learnings", request, None))

    def change_learning(self, learning_id: str, project: str, feature: str, **changes: Any) -> FeatureLearning:
        """Change or review one learning: text, reason, task_id, reviewed, rejected, keep_over, source, note."""
        body = _request(LearningPatch, **changes).model_dump_json(exclude_unset=True).encode()
        path = f"/v1/memory/learnings/{quote(learning_id, safe='')}"
        params = {"project": project, "feature": feature}
        headers = {"Content-Type": "application/json"}
        return _parsed(FeatureLearning, self._send("PATCH", path, headers, content=body, params=params))

    def learnings(self, project: str, feature: str, *, state: str | None = None) -> Learnings:
        """The learnings of a feature, with those that contradict each other."""
        return self._memory(Learnings, "learnings", project, feature, state=state)

    def memory_status(self, project: str) -> RagStatus:
        """How a project's memory fares: index, embedder, counts, and how far the index is behind."""
        return _parsed(RagStatus, self._send("GET", "/v1/memory/status", params={"project": project}))

    def graph_query(self, query: str, corpus: str = "default", **fields: Any) -> CypherResult:
        """Ask the graph of a corpus in Cypher, which only reads. `fields`: parameters, limit, timeout_seconds.

        Raises:
            InvalidQuestion: it cannot be read; names line and column.
        """
        request = _request(CypherRequest, query=query, corpus=corpus, **fields)
        patience = self._timeout_seconds + request.timeout_seconds
        return _parsed(CypherResult, self._post("/v1/graph/query", request, None, patience))

    def graph_neighbours(
        self,
        node: str,
        corpus: str = "default",
        *,
        direction: Literal["out", "in"] | None = None,
        edges: Sequence[str] = (),
        limit: int = 50,
    ) -> Neighbours:
        """What is next to a node: its label and key, a document's path, or the name of a symbol where that is plain."""
        asked = [("corpus", corpus), ("limit", str(limit)), *(("edge", edge) for edge in edges)]
        asked += [("direction", direction)] if direction else []
        path = f"/v1/graph/neighbours/{quote(node, safe='')}?{urlencode(asked)}"
        return _parsed(Neighbours, self._send("GET", path))

    def graph_linked(self, module: str, corpus: str = "default", *, failing: bool = True, top_k: int = 10) -> Linked:
        """The failing tests that touch a module, and the documents that are linked to them."""
        asked = {"module": module, "corpus": corpus, "failing": str(failing).lower(), "top_k": str(top_k)}
        return _parsed(Linked, self._send("GET", "/v1/graph/linked", params=asked))

    def graph_status(self, corpus: str = "default") -> GraphStatus:
        """How the graph of a corpus stands."""
        return _parsed(GraphStatus, self._send("GET", "/v1/graph/status", params={"corpus": corpus}))

    def rebuild_graph(self, corpus: str = "default") -> RunAccepted:
        """Read every document into the graph anew; needs an operator's key where keys are asked for."""
        return _parsed(RunAccepted, self._post("/v1/graph/rebuild", _request(RebuildRequest, corpus=corpus), None))

    def health(self) -> Health:
        """How each part of the server is, well or not."""
        return _parsed(Health, self._send("GET", "/healthz", also_good=(httpx.codes.SERVICE_UNAVAILABLE,)))

    def metrics(self) -> str:
        """Every figure of the server in Prometheus' text format. Needs an operator's key of all corpora."""
        return self._send("GET", "/metrics").text

    def _memory(self, kind: type[Answer], what: str, project: str, feature: str, **asked: Any) -> Answer:
        params = {"project": project, "feature": feature}
        params |= {name: str(value) for name, value in asked.items() if value not in (None, "")}
        return _parsed(kind, self._send("GET", f"/v1/memory/{what}", params=params))

    def _post(
        self, path: str, request: BaseModel, idempotency_key: str | None, timeout_seconds: float | None = None
    ) -> httpx.Response:
        headers = {"Content-Type": "application/json", **_key(idempotency_key)}
        body = request.model_dump_json(exclude_unset=True).encode()
        return self._send("POST", path, headers, timeout_seconds, content=body)

    def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        *,
        also_good: tuple[int, ...] = (),
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """One exchange, tried again (with the same key) when the connection fails."""
        request = self._http.build_request(
            method,
            path,
            headers=headers,
            content=content,
            params=params,
            timeout=timeout_seconds or self._timeout_seconds,
        )
        response = self._exchange(request)
        if response.is_success or response.status_code in also_good:
            return response
        raise parse_error(response)

    def _exchange(self, request: httpx.Request) -> httpx.Response:
        tries = stamina.retry_context(
            on=httpx.TransportError,
            attempts=ATTEMPTS,
            timeout=None,
            wait_initial=FIRST_WAIT_SECONDS,
            wait_max=LONGEST_WAIT_SECONDS,
        )
        try:
            for attempt in tries:
                with attempt:
                    return self._http.send(request)
        except httpx.TimeoutException as error:
            raise TimedOut(f"{request.method} {request.url} took too long") from error
        except httpx.TransportError as error:
            raise Unavailable(f"{request.method} {request.url}: {error}") from error
        raise AssertionError("a retry context either returns or raises")


def _request(kind: type[Request], **fields: Any) -> Request:
    """The request, checked before it travels: the error names the field."""
    try:
        return kind(**fields)
    except ValidationError as error:
        raise InvalidInput(*first_problem(error)) from error


def _parsed(kind: type[Answer], response: httpx.Response) -> Answer:
    try:
        return kind.model_validate_json(response.content)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise Unavailable(f"{response.url} answered no {kind.__name__}: {field}: {problem}") from error


def _key(idempotency_key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
