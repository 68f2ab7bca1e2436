"""Resources and prompts of Sluice over MCP, the completion of their arguments, and the news of runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, UserMessage
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    Completion,
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from sluice_client import AsyncSluiceClient
from sluice_client.errors import NotFound, SluiceError
from sluice_client.mcp import results as told
from sluice_client.mcp.server import MendableServer, sentence

RUNS = "sluice://runs/"
NEWS = frozenset({"RunFinished", "AnswerStale"})
"""Events by which what a run's resource holds is another."""


def add_resources(server: MendableServer, client: AsyncSluiceClient) -> None:
    """Add what can be read by an address."""
    json_text = "application/json"

    @server.resource("sluice://corpora", mime_type=json_text, description="The corpora of this server")
    async def corpora() -> str:
        return await _read("corpora", client.corpora())

    @server.resource(RUNS + "{run_id}", mime_type=json_text, description="A run with its answer")
    async def run(run_id: str) -> str:
        return await _read(run_id, client.run(run_id))

    @server.resource("sluice://corpora/{corpus}", mime_type=json_text, description="What a corpus holds")
    async def corpus(corpus: str) -> str:
        return await _read(corpus, client.corpus(corpus))

    @server.resource(
        "sluice://documents/{corpus}/{+document_id}{?start,end}",
        mime_type="text/plain",
        description="The text of a document, or lines of it",
        security=ResourceSecurity(exempt_params={"document_id"}),  # an id, and no path here
    )
    async def document(corpus: str, document_id: str, start: int = 1, end: int = 0) -> str:
        lines = client.document_text(document_id, corpus, int(start), int(end) or None)
        found: Any = json.loads(await _read(document_id, lines))
        return told.fenced(told.cut(found["text"], told.MOST_TOKENS), found.get("url") or document_id)

    @server.resource(
        "sluice://learnings/{project}/{feature}",
        mime_type=json_text,
        description="What was learned on a feature",
        security=ResourceSecurity(exempt_params={"project"}),
    )
    async def learnings(project: str, feature: str) -> str:
        return await _read(f"{project}/{feature}", client.learnings(project, feature))


async def _read(name: str, asked: Awaitable[Any]) -> str:
    try:
        found = await asked
    except NotFound as error:
        raise ResourceNotFoundError(f"{name}: {error}") from error
    except SluiceError as error:
        raise ResourceError(sentence(error)) from error
    return str(found.model_dump_json(exclude_none=True))


def add_prompts(server: MendableServer, client: AsyncSluiceClient) -> None:
    """Add prompts, and the completion of every argument that names something."""

    @server.prompt(description="A question with cited passages from a corpus, by a template of sluice_list prompts")
    async def answer_with_citations(query: str, corpus: str = "default", template: str = "rag") -> list[Message]:
        found = await _told(client.query(query, corpus, prompt=template, max_tokens=4_000))
        made = {"assistant": AssistantMessage, "user": UserMessage}
        return [made.get(one.role, UserMessage)(one.content) for one in found.prompt]

    @server.prompt(description="What is remembered of a feature, before work on it begins")
    async def begin_work(project: str, feature: str) -> list[Message]:
        block = await _told(client.memory_prompt(project, feature))
        return [UserMessage(block.text or "Nothing is remembered of this feature yet.")]

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        names: list[str] = []
        with suppress(SluiceError):
            if argument.name == "corpus":
                names = [one.name for one in (await client.corpora()).data]
            elif argument.name == "template":
                names = [one.name for one in (await client.prompts()).data]
            elif argument.name == "feature" and context and (project := (context.arguments or {}).get("project")):
                names = list((await client.memory_features(project)).data)
        fit = [name for name in names if name.startswith(argument.value)]
        return Completion(values=fit[:100], total=len(fit), has_more=len(fit) > 100)


async def _told(asked: Awaitable[Any]) -> Any:
    try:
        return await asked
    except SluiceError as error:
        raise MCPError(INVALID_PARAMS, sentence(error)) from error


def follow_runs(server: MendableServer, client: AsyncSluiceClient) -> None:
    """Tell hosts that subscribe to a run's resource when it is finished, and when its answer is stale: by the stream
    that a host listens to, or in the older era by a session's own."""
    sessions = "a session's subscriptions"

    async def follow(uri: str, tell: Callable[[str], Awaitable[None]]) -> None:
        with suppress(SluiceError):  # one that the caller may not see has no news
            async with aclosing(client.events(uri.removeprefix(RUNS), follow=True)) as events:
                async for event in events:
                    if event.kind in NEWS:
                        await tell(uri)

    async def listen(
        ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        bus = InMemorySubscriptionBus()  # one for each stream: no other key hears of these runs

        async def tell(uri: str) -> None:
            await bus.publish(ResourceUpdated(uri))

        async with anyio.create_task_group() as followers:
            for uri in params.notifications.resource_subscriptions or ():
                if uri.startswith(RUNS):
                    followers.start_soon(follow, uri, tell)
            result = await ListenHandler(bus)(ctx, params)
            followers.cancel_scope.cancel()
        return result

    def of(ctx: ServerRequestContext[Any, Any]) -> dict[str, asyncio.Task[None]]:
        connection: Any = ctx.session._connection  # noqa: SLF001 - there is no public way to what a session holds
        if sessions not in connection.state:
            connection.state[sessions] = {}
            connection.exit_stack.callback(lambda: [one.cancel() for one in connection.state[sessions].values()])
        held: dict[str, asyncio.Task[None]] = connection.state[sessions]
        return held

    async def subscribe(ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        uri = str(params.uri)
        if uri.startswith(RUNS) and uri not in of(ctx):
            of(ctx)[uri] = asyncio.create_task(follow(uri, ctx.session.send_resource_updated))
        return EmptyResult()

    async def unsubscribe(ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        if task := of(ctx).pop(str(params.uri), None):
            task.cancel()
        return EmptyResult()

    add = server._lowlevel_server.add_request_handler  # noqa: SLF001 - nor one to add a method
    add("subscriptions/listen", SubscriptionsListenRequestParams, listen)
    add("resources/subscribe", SubscribeRequestParams, subscribe)
    add("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)
