"""A server for tests of programs that use this client: it holds documents in memory and answers as Sluice does.

    from sluice_client.testing import FakeServer

    def test_my_agent():
        server = FakeServer({"heapq": "A heap is a list whose smallest item is the first."})
        with server.client() as sluice:
            run = sluice.gate("what is a heap")
        assert run.answer.citations[0].source == "heapq"
        server.fails("POST /v1/query", 503)

It finds passages by common words, and never searches the web. What it does not know it answers with 404.
`answers` sets the answer of a route, `fails` a problem. `requests` holds all that was asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

import httpx2

from sluice_client.client import AsyncSluiceClient, SluiceClient

_WORD = re.compile(r"\w+")


@dataclass
class FakeServer:
    """A server without a network. `documents` are texts by their ids, of the corpus `default`."""

    documents: dict[str, str] = field(default_factory=dict)
    requests: list[httpx2.Request] = field(default_factory=list)
    _corpora: dict[str, dict[str, str]] = field(default_factory=dict)
    _runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    _told: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._corpora["default"] = self.documents

    def client(self, **options: Any) -> SluiceClient:
        """Return a client of this server."""
        return SluiceClient("http://sluice.test", transport=httpx2.MockTransport(self._answer), **options)

    def async_client(self, **options: Any) -> AsyncSluiceClient:
        """Return a client for asyncio of this server."""
        return AsyncSluiceClient("http://sluice.test", transport=httpx2.MockTransport(self._answer), **options)

    def answers(self, line: str, body: Any, status: int = 200, times: int = -1) -> None:
        """Answer requests such as `POST /v1/query` so, `times` often; by default always."""
        self._told.setdefault(line, []).extend([(status, body)] * max(1, times) + ([(0, None)] if times > 0 else []))

    def fails(self, line: str, status: int, code: str = "", *, times: int = 1, retryable: bool = True) -> None:
        """Answer requests such as `POST /v1/query` with a problem, `times` often."""
        code = code or {404: "not_found", 429: "overloaded", 403: "forbidden", 422: "invalid_input"}.get(
            status, "unavailable"
        )
        self.answers(
            line, {"code": code, "detail": "by FakeServer", "status": status, "retryable": retryable}, status, times
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        path = request.url.raw_path.decode().partition("?")[0]
        line = f"{request.method} {path}"
        if told := self._told.get(line):
            status, body = told.pop(0) if len(told) > 1 else told[0]
            if status:
                return httpx2.Response(status, json=body)
            del self._told[line]
        body = json.loads(request.content) if request.content else {}
        match request.method, path.strip("/").split("/")[1:]:
            case "POST", ["gate"]:
                run = self._run("gate", body["corpus"], query=body["query"], answer=self._answered(body))
                return httpx2.Response(200 if body.get("wait") else 202, json=run)
            case "POST", ["query"]:
                return httpx2.Response(200, json=self._retrieval(body))
            case "POST", ["documents"]:
                held = self._corpora.setdefault(body["corpus"], {})
                held.update({(one.get("id") or one.get("url") or ""): one.get("text", "") for one in body["documents"]})
                return httpx2.Response(202, json=self._run("documents", body["corpus"]))
            case "POST", ["feedback"]:
                return httpx2.Response(202, json={"run_id": body["run_id"], "status": "recorded", "counted": "now"})
            case "GET", ["runs"]:
                return httpx2.Response(200, json={"data": [self._summary(one) for one in self._runs.values()]})
            case "GET" | "DELETE", ["runs", run_id] if run_id in self._runs:
                return httpx2.Response(200, json=self._runs[run_id])
            case "GET", ["runs", run_id, "events"] if run_id in self._runs:
                return httpx2.Response(200, text=self._events(run_id), headers={"Content-Type": "text/event-stream"})
            case "GET", ["documents", document_id, "text"] if (named := unquote(document_id)) in self._all(request):
                return httpx2.Response(200, json=_lines(named, self._all(request)[named]))
        problem = {"code": "not_found", "detail": f"FakeServer has no {line}", "status": 404, "retryable": False}
        return httpx2.Response(404, json=problem)

    def _all(self, request: httpx2.Request) -> Mapping[str, str]:
        return self._corpora.get(request.url.params.get("corpus", "default"), {})

    def _run(self, kind: str, corpus: str, **more: Any) -> dict[str, Any]:
        run_id = f"run_{len(self._runs) + 1}"
        now = _now()
        run = {"run_id": run_id, "kind": kind, "corpus": corpus, "status": "finished", "created_at": now, **more}
        self._runs[run_id] = {**run, "finished_at": now}
        return self._runs[run_id]

    def _summary(self, run: Mapping[str, Any]) -> dict[str, Any]:
        return {"owner": "fake", "query": None, "usd": 0.0, **run}

    def _events(self, run_id: str) -> str:
        event = {"id": "1", "kind": "RunFinished", "version": 1, "run_id": run_id, "corpus": "default"}
        event |= {"occurred_at": _now(), "body": {"status": "finished"}}
        return f"event: RunFinished\nid: 1\ndata: {json.dumps(event)}\n\n"

    def _retrieval(self, body: Mapping[str, Any]) -> dict[str, Any]:
        chunks = self._chunks(body)
        metadata = {"strategy": "bm25", "fusion": "none", "duration_ms": 0.0, "total_candidates": len(chunks)}
        return {"generation": "g1", "journal_offset": 1, "chunks": chunks, "metadata": metadata}

    def _answered(self, body: Mapping[str, Any]) -> dict[str, Any]:
        chunks = self._chunks(body)
        cited = [
            {"number": n, "chunk_id": one["chunk_id"], "source": one["document_id"], "match": 1.0}
            for n, one in enumerate(chunks, 1)
        ]
        context = "\n\n".join(f"[{n}] {one['text']}" for n, one in enumerate(chunks, 1))
        told = {"query": body["query"], "corpus": body["corpus"], "plan": "retrieve", "generation": "g1"}
        return {**told, "journal_offset": 1, "context": context, "citations": cited, "chunks": chunks}

    def _chunks(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        words = set(_WORD.findall(body["query"].lower()))
        found = self._corpora.get(body.get("corpus", "default"), {})
        ranked = sorted(found, key=lambda one: -len(words & set(_WORD.findall(found[one].lower()))))
        return [_chunk(name, found[name], rank, words) for rank, name in enumerate(ranked[: body.get("top_k") or 8], 1)]


def _chunk(document_id: str, text: str, rank: int, words: set[str]) -> dict[str, Any]:
    score = len(words & set(_WORD.findall(text.lower()))) / max(1, len(words))
    unknown = dict.fromkeys(
        ("url", "file_path", "language", "symbol_path", "title", "dense_distance", "dense_rank", "lexical_rank")
    )
    where = {"start_line": 1, "end_line": 1 + text.count("\n"), "section_path": [], "checksum": "", "metadata": {}}
    ranks = {"lexical_score": score, "fused_score": score, "rank": rank, "trust": 1.0, "token_estimate": len(text) // 4}
    provenance = {"source": "submission", "fetched_at": _now()}
    told = {"chunk_id": f"{document_id}#1", "document_id": document_id, "text": text, "provenance": provenance}
    return {**unknown, **where, **ranks, **told}


def _lines(document_id: str, text: str) -> dict[str, Any]:
    count = 1 + text.count("\n")
    unknown = dict.fromkeys(("url", "file_path", "title"))
    where = {"document_id": document_id, "corpus": "default", "start_line": 1, "end_line": count, "line_count": count}
    return {**unknown, **where, "origin": "submitted", "fetched_at": _now(), "text": text}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()
