"""Judges answers by the `ragas` package. Runs in the package's own environment: JSON on stdin, JSON on stdout.

This file cannot import Sluice, and no other file imports `ragas`.

    {"model": …, "base_url": …, "api_key": …, "proxy_url": …, "timeout_seconds": …, "most_tokens": …,
     "answers": [{"query": …, "passages": […], "response": …}]}

becomes {"tokens": 4000, "scores": […]} with one object for each answer, {"faithfulness": 0.5, "groundedness": null,
"failures": ["groundedness: …"]}. A figure that is unavailable or not a number is null and never 0. Once `most_tokens`
are used no further call is made.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import os
import sys
from typing import Any

MOST_TOKENS = 4_096
"""Limit of one reply of the judge, which lists the statements of an answer."""


class Account:
    """Counts the tokens that the judge used, and refuses a request beyond the ceiling."""

    def __init__(self, most_tokens: int) -> None:
        self.tokens = 0
        self._most_tokens = most_tokens

    async def before(self, request: Any) -> None:
        """Refuse the request if the tokens are used up. Called before each request."""
        if self.tokens >= self._most_tokens:
            raise RuntimeError("the budget of tokens is spent")

    async def after(self, response: Any) -> None:
        """Count the tokens of a response. Called for each response."""
        await response.aread()
        if response.is_success:
            self.tokens += (response.json().get("usage") or {}).get("total_tokens", 0)


async def judge_all(asked: dict[str, Any]) -> dict[str, Any]:
    """Judge each answer, one after the other: two calls of the judge for each figure."""
    account = Account(asked["most_tokens"])
    llms, collections = importlib.import_module("ragas.llms"), importlib.import_module("ragas.metrics.collections")
    openai, httpx = importlib.import_module("openai"), importlib.import_module("httpx")
    async with httpx.AsyncClient(
        proxy=asked.get("proxy_url"),
        trust_env=False,
        event_hooks={"request": [account.before], "response": [account.after]},
    ) as http_client:
        client = openai.AsyncOpenAI(
            api_key=asked.get("api_key") or "none",
            base_url=asked["base_url"],
            timeout=asked["timeout_seconds"],
            max_retries=1,
            http_client=http_client,
        )
        llm = llms.llm_factory(asked["model"], provider="openai", client=client, max_tokens=MOST_TOKENS)
        metrics = {
            "faithfulness": collections.Faithfulness(llm=llm),
            "groundedness": collections.ResponseGroundedness(llm=llm, max_retries=1),
        }
        return {"scores": [await judge(answer, metrics) for answer in asked["answers"]], "tokens": account.tokens}


async def judge(answer: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one answer."""
    fields = {"response": answer["response"], "retrieved_contexts": answer["passages"]}
    arguments = {"faithfulness": {"user_input": answer["query"], **fields}, "groundedness": fields}
    found: dict[str, Any] = {"failures": []}
    for name, metric in metrics.items():
        found[name] = None
        try:
            value = float((await metric.ascore(**arguments[name])).value)
        except Exception as error:  # noqa: BLE001 (the package lets anything through)
            found["failures"].append(f"{name}: {type(error).__name__}")
            continue
        if math.isfinite(value):
            found[name] = value
        else:
            found["failures"].append(f"{name}: no statement was found")
    return found


if __name__ == "__main__":
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"
    written, sys.stdout = sys.stdout, sys.stderr  # libraries' prints must not mix with the result
    json.dump(asyncio.run(judge_all(json.load(sys.stdin))), written)
