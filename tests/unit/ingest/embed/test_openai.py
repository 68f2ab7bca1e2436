"""The endpoint's answers become unit vectors; its failures become errors that say what to do and hold no key."""

from __future__ import annotations

import base64
import json
import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import numpy as np
import pytest
from pydantic import SecretStr

from sluice.contracts.errors import (
    Conflict,
    InvalidInput,
    InvalidSetting,
    Overloaded,
    SluiceError,
    TimedOut,
    Unavailable,
)
from sluice.ingest.embed.batching import Limits
from sluice.ingest.embed.openai import OpenAIEmbedder, endpoint_fingerprint
from sluice.ingest.embed.tokens import estimated_tokens
from sluice.ingest.settings import EmbedSettings

KEY = "sk-secret-0123456789abcdef"
Answer = tuple[int, dict[str, str], bytes]


class Endpoint:
    """An `/embeddings` endpoint on loopback: answers as OpenAI does, or as `script` says, one entry per request."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.script: list[Callable[[dict[str, Any]], Answer]] = []
        self.release = threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self) -> None:
        self.release.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, request: dict[str, Any]) -> Answer:
        return self.script.pop(0)(request) if self.script else embeddings(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.requests.append(request | {"path": self.path})
                endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, headers, body = endpoint.answer(request)
                try:
                    self.send_response(status)
                    for name, value in {"content-type": "application/json", **headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:
                    self.close_connection = True  # the client has given up, as the test wants it to

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def vector_of(text: str, dimension: int = 8) -> np.ndarray:
    """Any vector, not of length one, that tells texts apart."""
    return np.random.default_rng(sum(text.encode()) + len(text)).normal(size=dimension).astype(np.float32) * 3


def embeddings(
    request: dict[str, Any], dimension: int = 8, encoding: str | None = None, shuffled: bool = False, count: int = 999
) -> Answer:
    def encoded(vector: np.ndarray) -> Any:
        if (encoding or request.get("encoding_format")) == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return [float(value) for value in vector]

    data = [
        {"object": "embedding", "index": index, "embedding": encoded(vector_of(text, dimension))}
        for index, text in enumerate(request["input"])
    ][:count]
    tokens = sum(len(text.split()) for text in request["input"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    body = {"object": "list", "data": data[::-1] if shuffled else data, "model": request["model"], "usage": usage}
    return 200, {}, json.dumps(body).encode()


def failure(status: int, message: str = "no", **headers: str) -> Callable[[dict[str, Any]], Answer]:
    body = json.dumps({"error": {"message": message, "type": "error", "param": None, "code": None}}).encode()
    return lambda _: (status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def settings(endpoint: Endpoint, **changes: Any) -> EmbedSettings:
    given: dict[str, Any] = {
        "provider": "openai",
        "openai_base_url": endpoint.base_url,
        "openai_api_key": SecretStr(KEY),
        "openai_dimension": 8,
        "openai_usd_per_million_tokens": 2.0,
    }
    return EmbedSettings(**given | changes)


@pytest.mark.parametrize("encoding", ["base64", "float"])
def test_vectors_come_normalised_and_in_order_in_either_encoding(endpoint: Endpoint, encoding: str) -> None:
    endpoint.script = [lambda request: embeddings(request, encoding=encoding, shuffled=True)]
    texts = ["one", "two words", "three more words"]
    embedded = OpenAIEmbedder(settings(endpoint), max_retries=0).embed(texts)
    expected = np.array([vector_of(text) / np.linalg.norm(vector_of(text)) for text in texts])
    np.testing.assert_allclose(embedded.vectors, expected, atol=1e-6)
    assert embedded.vectors.dtype == np.float32
    assert embedded.tokens == 6
    assert embedded.cost_usd == pytest.approx(12e-6)


def test_a_request_names_the_model_and_carries_the_key_and_nothing_of_the_environment(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1/")
    OpenAIEmbedder(settings(endpoint), max_retries=0).embed(["text"])
    OpenAIEmbedder(settings(endpoint, openai_api_key=None), max_retries=0).embed(["text"])
    assert endpoint.requests[0] == {
        "path": "/v1/embeddings",
        "input": ["text"],
        "model": "text-embedding-3-small",
        "dimensions": 8,
        "encoding_format": "base64",
    }
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "from-the-environment" not in json.dumps(endpoint.headers)


def test_a_shorter_dimension_is_asked_for_only_of_models_that_can(endpoint: Endpoint) -> None:
    OpenAIEmbedder(settings(endpoint, openai_model="bge-m3"), max_retries=0).embed(["text"])
    OpenAIEmbedder(settings(endpoint, openai_model="text-embedding-3-large"), max_retries=0).embed(["text"])
    assert "dimensions" not in endpoint.requests[0]
    assert endpoint.requests[1]["dimensions"] == 8


def test_requests_keep_to_every_limit_and_vectors_to_the_order_of_the_texts(endpoint: Endpoint) -> None:
    lengths = np.random.default_rng(3).integers(1, 400, size=90)
    texts = [f"{number} " + ('naïve 東京 \u2603 "quoted" ' * 40)[:length] for number, length in enumerate(lengths)]
    limits = Limits(texts=12, tokens=1_200, bytes=5_000)
    embedded = OpenAIEmbedder(settings(endpoint), limits=limits).embed(texts)
    for request, headers in zip(endpoint.requests, endpoint.headers, strict=True):
        assert len(request["input"]) <= 12
        assert sum(map(estimated_tokens, request["input"])) <= 1_200
        assert int(headers["content-length"]) <= 5_000
    assert sorted(text for request in endpoint.requests for text in request["input"]) == sorted(texts)
    expected = np.array([vector_of(text) / np.linalg.norm(vector_of(text)) for text in texts])
    np.testing.assert_allclose(embedded.vectors, expected, atol=1e-6)


def test_a_text_beyond_the_window_is_cut_and_still_gets_its_vector(endpoint: Endpoint) -> None:
    embedded = OpenAIEmbedder(settings(endpoint, openai_max_text_tokens=4), max_retries=0).embed(["short", "é" * 100])
    assert sorted(text for request in endpoint.requests for text in request["input"]) == ["short", "éééé"]
    assert embedded.vectors.shape == (2, 8)


def test_no_texts_ask_nothing(endpoint: Endpoint) -> None:
    assert OpenAIEmbedder(settings(endpoint), max_retries=0).embed([]).vectors.shape == (0, 8)
    assert endpoint.requests == []


def test_requests_go_through_the_client_that_is_handed_in(endpoint: Endpoint) -> None:
    seen: list[str] = []
    with httpx2.Client(event_hooks={"request": [lambda request: seen.append(str(request.url))]}) as client:
        OpenAIEmbedder(settings(endpoint), client).embed(["text"])
    assert seen == [f"{endpoint.base_url}/embeddings"]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_failure_is_tried_again(endpoint: Endpoint, status: int) -> None:
    endpoint.script = [failure(status, retry_after_ms="5")]
    embedded = OpenAIEmbedder(settings(endpoint), max_retries=1).embed(["two words"])
    assert len(endpoint.requests) == 2
    assert embedded.tokens == 2


def test_a_lasting_rate_limit_says_when_to_come_back(endpoint: Endpoint) -> None:
    endpoint.script = [failure(429, "slow down", retry_after="17")]
    with pytest.raises(Overloaded, match="slow down") as caught:
        OpenAIEmbedder(settings(endpoint), max_retries=0).embed(["text"])
    assert caught.value.retry_after_seconds == 17


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (500, Unavailable, "status 500"),
        (401, InvalidSetting, r"embed\.openai_api_key"),
        (403, InvalidSetting, r"embed\.openai_api_key"),
        (404, InvalidSetting, r"embed\.openai_model"),
        (400, InvalidInput, "status 400: maximum context length"),
    ],
)
def test_a_lasting_failure_is_named_and_never_quotes_the_key(
    endpoint: Endpoint, status: int, error: type[SluiceError], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint.script = [failure(status, f"maximum context length, your key {KEY}")]
    with pytest.raises(error, match=says) as caught:
        OpenAIEmbedder(settings(endpoint), max_retries=0).embed(["text"])
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in repr(settings(endpoint))


def test_a_successful_request_leaves_no_key_in_the_logs(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    OpenAIEmbedder(settings(endpoint), max_retries=0).embed(["text"])
    assert KEY not in caplog.text


def test_another_dimension_is_a_wrong_setting_with_the_right_value(endpoint: Endpoint) -> None:
    endpoint.script = [lambda request: embeddings(request, dimension=12)]
    with pytest.raises(InvalidSetting, match=r"is 8, .* vectors of 12 \(set it to 12\)"):
        OpenAIEmbedder(settings(endpoint), max_retries=0).embed(["text"])


def test_fewer_vectors_than_texts_are_refused(endpoint: Endpoint) -> None:
    endpoint.script = [lambda request: embeddings(request, count=1)]
    with pytest.raises(Unavailable, match="1 vectors for 2 texts"):
        OpenAIEmbedder(settings(endpoint), max_retries=0).embed(["one", "two"])


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"{}",
        b"[]",
        b'{"data": [{"index": 0}]}',
        b'{"data": [null]}',
        b'{"data": [{"index": 0, "embedding": "abc"}]}',
        b'"x"',
    ],
)
def test_an_answer_that_is_no_embedding_is_unavailable(endpoint: Endpoint, body: bytes) -> None:
    endpoint.script = [lambda _: (200, {}, body)]
    with pytest.raises(Unavailable):
        OpenAIEmbedder(settings(endpoint), max_retries=0).embed(["text"])


def test_a_vector_without_direction_is_refused(endpoint: Endpoint) -> None:
    body = json.dumps({"data": [{"index": 0, "embedding": [0.0] * 8}]}).encode()
    endpoint.script = [lambda _: (200, {}, body)]
    with pytest.raises(Unavailable, match="without a direction"):
        OpenAIEmbedder(settings(endpoint), max_retries=0).embed(["text"])


def test_tokens_are_estimated_where_the_server_does_not_count(endpoint: Endpoint) -> None:
    body = json.dumps({"data": [{"index": 0, "embedding": [1.0] * 8}]}).encode()
    endpoint.script = [lambda _: (200, {}, body)]
    assert OpenAIEmbedder(settings(endpoint), max_retries=0).embed(["four and a half"]).tokens == 6


def test_a_silent_endpoint_is_timed_out(endpoint: Endpoint) -> None:
    def silent(request: dict[str, Any]) -> Answer:
        endpoint.release.wait(20)
        return embeddings(request)

    endpoint.script = [silent]
    with pytest.raises(TimedOut, match=r"0\.2 s"):
        OpenAIEmbedder(settings(endpoint, openai_timeout_seconds=0.2), max_retries=0).embed(["text"])


def test_a_closed_port_is_unavailable() -> None:
    closed = EmbedSettings(openai_base_url="http://127.0.0.1:1/v1")
    with pytest.raises(Unavailable, match="cannot be reached"):
        OpenAIEmbedder(closed, max_retries=0).embed(["text"])


def test_the_fingerprint_tells_model_dimension_and_endpoint_apart(endpoint: Endpoint) -> None:
    fingerprints = {
        endpoint_fingerprint(EmbedSettings()),
        endpoint_fingerprint(EmbedSettings(openai_model="other")),
        endpoint_fingerprint(EmbedSettings(openai_dimension=512)),
        endpoint_fingerprint(settings(endpoint)),
    }
    assert len(fingerprints) == 4
    assert OpenAIEmbedder(EmbedSettings(openai_fingerprint="agreed")).fingerprint == "agreed"


def test_an_index_of_another_model_is_refused_before_anything_is_sent(endpoint: Endpoint) -> None:
    with pytest.raises(Conflict, match="another-model"):
        OpenAIEmbedder(settings(endpoint), max_retries=0).embed(["text"], "another-model")
    assert endpoint.requests == []
