"""Settings of the judge: a language model that judges passages and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from sluice.contracts.base import FIXED, Value


class JudgeSettings(Value):
    """An endpoint that speaks OpenAI's chat completions. Nothing is asked of it until `model` is named."""

    model: str | None = None
    """The model's name at the endpoint. Not set: there is no judge."""
    base_url: str = "https://api.openai.com/v1"
    """The endpoint, up to and including its version. One on this machine needs egress.allow = ["judge=HOST:PORT"]."""
    api_key: SecretStr | None = None
    """Sent as a bearer token."""
    usd_per_million_tokens: Annotated[float, Field(ge=0)] = 0.6
    """The price of its dearest tokens, counted for all of them."""
    sample: Annotated[float, Field(ge=0, le=1)] = 0.01
    """The share of the runs whose responses, as feedback reports them, are judged while the flag `ragas` is on."""
    timeout_seconds: Annotated[float, FIXED] = 20.0
    """Over one answer."""
