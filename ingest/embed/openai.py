"""Embeddings from an endpoint with OpenAI's `/embeddings` API: OpenAI, or the owner's server.

Texts are packed into few requests, within the endpoint's limits (`ingest.embed.batching`). 429, 5xx and broken
connections are retried with growing pauses by the `openai` package, which honours `Retry-After`. The remaining errors
become errors of `contracts.errors`; neither they nor their causes hold the API key.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx2
import numpy as np
import openai
from pydantic import BaseModel, ValidationError

from sluice.contracts.errors import (
    InvalidInput,
    InvalidSetting,
    Overloaded,
    SluiceError,
    TimedOut,
    Unavailable,
    first_problem,
)
from sluice.ingest.deadline import CancelCheck, never_cancelled
from sluice.ingest.embed.batching import Limits, fitted, packed
from sluice.ingest.embed.port import Embedded, Vectors, require_fingerprint, unit_rows
from sluice.ingest.embed.tokens import estimated_tokens
from sluice.ingest.settings import EmbedSettings

OPENAI_BASE_URL = "https://api.openai.com/v1"
MAX_RETRIES = 2
"""Retries after 429, 5xx and broken connections, with growing pauses; the queue tries again later in any case."""


class OpenAIEmbedder:
    """The endpoint of the settings. Connects at the first text; threads may share it.

    `http_client` carries every request (and the rules of egress with it); its owner closes it. `check_cancelled` is
    called before each request; what it raises ends the embedding.
    """

    def __init__(
        self,
        settings: EmbedSettings,
        http_client: httpx2.Client | None = None,
        *,
        check_cancelled: CancelCheck = never_cancelled,
        limits: Limits | None = None,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        self.dimension = settings.openai_dimension
        self.fingerprint = settings.openai_fingerprint or endpoint_fingerprint(settings)
        self._settings = settings
        self._limits = limits or Limits(settings.openai_batch_texts)
        self._max_retries = max_retries
        self._http_client = http_client
        self._check_cancelled = check_cancelled
        self._connecting = threading.Lock()
        self._client: openai.OpenAI | None = None

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """Embed as `Embedder.embed`. Vectors are normalised here, whatever the endpoint does.

        Raises TimedOut, Overloaded or Unavailable if a later try may help, InvalidSetting for a refused key, an unknown
        model or another dimension, InvalidInput for a refused text. A text longer than the model's window is cut.
        """
        require_fingerprint(self.fingerprint, required_fingerprint)
        settings = self._settings
        fit = fitted(texts, settings.openai_max_text_tokens)
        vectors: Vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        tokens = 0
        for batch in packed(fit, self._limits):
            self._check_cancelled()
            some = [fit[position] for position in batch]
            answer = self._request(some)
            vectors[batch] = self._vectors_of(answer, len(some))
            tokens += answer.usage.total_tokens if answer.usage else sum(map(estimated_tokens, some))
        cost_usd = tokens * self._settings.openai_usd_per_million_tokens / 1e6
        return Embedded(vectors, self.fingerprint, tokens=tokens, cost_usd=cost_usd)

    def _request(self, texts: Sequence[str]) -> _Answer:
        dimensions = self.dimension if self._settings.requests_dimension else openai.omit
        try:
            # Raw, because the package itself accepts any JSON as an answer.
            response = self._connected().embeddings.with_raw_response.create(
                input=list(texts), model=self._settings.openai_model, dimensions=dimensions, encoding_format="base64"
            )
            return _Answer.model_validate_json(response.content)
        except openai.APITimeoutError as error:
            limit = self._settings.openai_timeout_seconds
            raise TimedOut(f"the embedding endpoint took longer than {limit:g} s") from error
        except openai.APIStatusError as error:
            # Without its cause: an endpoint's answer may quote the key that it refused.
            raise self._translated(error) from None
        except openai.APIConnectionError as error:
            raise Unavailable(f"the embedding endpoint cannot be reached: {error.__cause__ or error}") from error
        except ValidationError as error:
            field, problem = first_problem(error)
            raise Unavailable(f"the embedding endpoint's answer cannot be read: {field}: {problem}") from error

    def _translated(self, error: openai.APIStatusError) -> SluiceError:
        status, said = error.status_code, self._without_key(_message(error))
        if status == 429:
            return Overloaded(f"the embedding endpoint is over its limit: {said}", _retry_after_seconds(error))
        if status >= 500 or status in (408, 409):
            return Unavailable(f"the embedding endpoint failed with status {status}: {said}")
        if status in (401, 403):
            return InvalidSetting("embed.openai_api_key", f"refused by the endpoint with status {status}")
        if status == 404:
            return InvalidSetting("embed.openai_model", f"not found by the endpoint: {said}")
        return InvalidInput("texts", f"refused by the embedding endpoint with status {status}: {said}")

    def _without_key(self, message: str) -> str:
        key = self._settings.openai_api_key
        secret = key.get_secret_value() if key else ""
        return (message.replace(secret, "[key]") if secret else message)[:500]

    def _vectors_of(self, answer: _Answer, expected: int) -> Vectors:
        """Return rows in the order of the texts, whatever order the endpoint chose."""
        rows = sorted(answer.data, key=lambda row: row.index)
        if [row.index for row in rows] != list(range(expected)):
            raise Unavailable(f"the embedding endpoint gave {len(rows)} vectors for {expected} texts")
        vectors = [row.vector() for row in rows]
        wrong = next((len(vector) for vector in vectors if len(vector) != self.dimension), None)
        if wrong is not None:
            problem = f"is {self.dimension}, but {self._settings.openai_model} gives vectors of {wrong}"
            raise InvalidSetting("embed.openai_dimension", problem, f"set it to {wrong}")
        return unit_rows(np.stack(vectors))

    def _connected(self) -> openai.OpenAI:
        with self._connecting:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _connect(self) -> openai.OpenAI:
        settings = self._settings
        key = settings.openai_api_key
        client = self._http_client or openai.DefaultHttpxClient(proxy=settings.openai_proxy_url, trust_env=False)
        connected = openai.OpenAI(
            api_key=key.get_secret_value() if key else "none",
            base_url=settings.openai_base_url or OPENAI_BASE_URL,
            timeout=settings.openai_timeout_seconds,
            max_retries=self._max_retries,
            http_client=client,
        )
        # The package reads these from the environment, where they may belong to another endpoint.
        connected.organization = connected.project = None
        return connected


def endpoint_fingerprint(settings: EmbedSettings) -> str:
    """Return a name from model, dimension and endpoint: two servers may run one model at different precisions."""
    address = urlsplit(settings.openai_base_url or OPENAI_BASE_URL)
    host = f"{address.hostname}:{address.port}" if address.port else address.hostname
    return f"{settings.openai_model}/{settings.openai_dimension}/{host}{address.path.rstrip('/')}/l2"


def _message(error: openai.APIStatusError) -> str:
    """Return the endpoint's own message, if its error has OpenAI's format."""
    said = error.body.get("message") if isinstance(error.body, dict) else None
    return said if isinstance(said, str) else error.message


def _retry_after_seconds(error: openai.APIStatusError) -> float:
    """Return the `Retry-After` header in seconds; 1 if it is missing or a date."""
    try:
        return max(0.0, float(error.response.headers.get("retry-after", "1")))
    except ValueError:
        return 1.0


class _Row(BaseModel):
    """One vector: as base64 of little-endian float32, or, from servers that know no base64, as numbers."""

    index: int
    embedding: str | list[float]

    def vector(self) -> Vectors:
        if not isinstance(self.embedding, str):
            return np.array(self.embedding, dtype=np.float32)
        try:
            return np.frombuffer(base64.b64decode(self.embedding), dtype="<f4").astype(np.float32)
        except (binascii.Error, ValueError) as error:
            raise Unavailable("the embedding endpoint's answer cannot be read: a vector is not base64") from error


class _Usage(BaseModel):
    total_tokens: int


class _Answer(BaseModel):
    """The body of a response; other fields are ignored."""

    data: list[_Row]
    usage: _Usage | None = None
