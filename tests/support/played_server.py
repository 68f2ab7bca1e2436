"""A server that is played for the client: what it answers, and what it was asked."""

from __future__ import annotations

from typing import Any

import httpx2 as httpx

from sluice_client import SluiceClient

RUN = {
    "run_id": "run_1",
    "kind": "gate",
    "corpus": "default",
    "status": "finished",
    "created_at": "2026-03-01T12:00:00Z",
}
ACCEPTED = {"run_id": "run_1", "status": "open"}
RETRIEVAL = {
    "generation": "g1",
    "journal_offset": 3,
    "chunks": [],
    "metadata": {"strategy": "hybrid", "fusion": "rrf", "duration_ms": 1.5, "total_candidates": 0},
}


class Server:
    """Answers with what it was given, at last again and again, and remembers what it was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **fields: Any) -> SluiceClient:
        """A client of it."""
        return SluiceClient("http://test", transport=httpx.MockTransport(self), **fields)


def reply(body: Any, status: int = 200, **headers: str) -> httpx.Response:
    """An answer in JSON."""
    return httpx.Response(status, json=body, headers=headers)
