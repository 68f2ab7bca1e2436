"""Client of a language model behind an endpoint of OpenAI's chat completions, one question at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypedDict

from pydantic import Field, SecretStr

from sluice.contracts.base import FIXED, Value
from sluice.contracts.errors import InvalidSetting, Overloaded, SluiceError, TimedOut, Unavailable

if TYPE_CHECKING:
    import httpx2
    import openai

MAX_RETRIES = 1
CHARACTERS_PER_TOKEN = 3
"""Lower bound for text that is mostly words, in any language; with fewer characters a token the cost is higher."""


class JudgeSettings(Value):
    """An endpoint of OpenAI's chat completions. It is not used until `model` is set."""

    model: str | None = None
    """The model's name at the endpoint. Not set: there is no judge."""
    base_url: str = "https://api.openai.com/v1"
    """The endpoint, up to and including its version. One on this machine needs egress.allow = ["judge=HOST:PORT"]."""
    api_key: SecretStr | None = None
    """Sent as a bearer token."""
    usd_per_million_tokens: Annotated[float, Field(ge=0)] = 0.6
    """The price of its most expensive tokens, applied to all tokens."""
    sample: Annotated[float, Field(ge=0, le=1)] = 0.01
    """The share of the runs whose responses, as feedback reports them, are judged while the flag `ragas` is on."""
    timeout_seconds: Annotated[float, FIXED] = 20.0
    """Limit for one answer."""


class ChatMessage(TypedDict):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Reply(NamedTuple):
    """The model's response, with the cost and duration of the call."""

    text: str
    model: str
    usd: float
    milliseconds: float


class ChatEndpoint:
    """The judge of the settings. Connects at the first question; threads may share it.

    `http_client` returns the client for the requests, which enforces the egress rules. `hide` masks private text.
    """

    def __init__(
        self, settings: JudgeSettings, http_client: Callable[[], httpx2.Client], hide: Callable[[str], str] = str
    ) -> None:
        if settings.model is None:
            raise InvalidSetting("judge.model", "not set, so there is no judge", "name a model of the endpoint")
        self._settings = settings
        self._model = settings.model
        self._http_client = http_client
        self._hide = hide
        self._connecting = threading.Lock()
        self._client: openai.OpenAI | None = None

    def cost_at_most(self, messages: Sequence[ChatMessage], max_tokens: int) -> float:
        """Return the most US dollars that the call can cost, computed before anything is sent."""
        asked = sum(len(message["content"]) for message in messages) / CHARACTERS_PER_TOKEN
        return (asked + max_tokens) * self._settings.usd_per_million_tokens / 1e6

    def ask(self, messages: Sequence[ChatMessage], *, max_tokens: int, as_json: bool = False) -> Reply:
        """Return the model's response to the messages.

        Raises `TimedOut`, `Overloaded` or `Unavailable` if a later try may help, and `InvalidSetting` if the endpoint
        refuses the key, the model or the request.
        """
        import openai

        hidden = [ChatMessage(role=one["role"], content=self._hide(one["content"])) for one in messages]
        started = time.perf_counter()
        try:
            answer = self._connected().chat.completions.create(
                model=self._model,
                messages=hidden,  # type: ignore[arg-type]
                max_tokens=max_tokens,
                temperature=0,
                response_format={"type": "json_object"} if as_json else openai.omit,
            )
        except openai.APITimeoutError as error:
            raise TimedOut(f"the judge took longer than {self._settings.timeout_seconds:g} s") from error
        except openai.APIStatusError as error:
            raise _translated(error) from None  # its cause may quote the key
        except openai.APIConnectionError as error:
            raise Unavailable(f"the judge cannot be reached: {error.__cause__ or error}") from error
        except openai.OpenAIError as error:
            raise Unavailable(f"the judge's answer cannot be read: {type(error).__name__}") from error
        text = answer.choices[0].message.content if answer.choices else None
        if not text:
            raise Unavailable("the judge's answer holds no text")
        tokens = answer.usage.total_tokens if answer.usage else 0
        usd = tokens * self._settings.usd_per_million_tokens / 1e6 if tokens else self.cost_at_most(messages, 0)
        return Reply(text, answer.model or self._model, usd, 1e3 * (time.perf_counter() - started))

    def _connected(self) -> openai.OpenAI:
        import openai

        with self._connecting:
            if self._client is None:
                key = self._settings.api_key
                self._client = openai.OpenAI(
                    api_key=key.get_secret_value() if key else "none",
                    base_url=self._settings.base_url,
                    timeout=self._settings.timeout_seconds,
                    max_retries=MAX_RETRIES,
                    http_client=self._http_client(),
                )
                # The package takes these from the environment, where they may be meant for another endpoint.
                self._client.organization = self._client.project = None
            return self._client


def _translated(error: openai.APIStatusError) -> SluiceError:
    """Return an error without the endpoint's message, which may quote the key or the texts."""
    status = error.status_code
    if status == 429:
        return Overloaded("the judge is over its limit", 1.0)
    if status >= 500 or status in (408, 409):
        return Unavailable(f"the judge failed with status {status}")
    name = "judge.api_key" if status in (401, 403) else "judge.model" if status == 404 else "judge.base_url"
    return InvalidSetting(name, f"refused by the endpoint with status {status}")
