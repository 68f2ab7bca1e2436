"""`/mcp`: the tools of Sluice for agents over MCP (streamable HTTP, both eras of the protocol), on this process.

The door checks key and Host itself, as FastAPI's dependencies do not run here. The library is imported when the door is
first used: it costs most of a second and 23 MB. The tools are those of `sluice_client.mcp`, over the services.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sluice.api.access import authenticated
from sluice.api.problems import problem
from sluice.contracts.api import ENDED, DocumentsRequest, FeedbackRequest, GateRequest
from sluice.contracts.errors import InvalidInput, PolicyRefused, SluiceError, checked, needed
from sluice.contracts.graph.api import CypherRequest
from sluice.contracts.graph.model import EdgeType
from sluice.contracts.memory.api import IterationSubmission, LearningRequest
from sluice.contracts.operations.forget import ForgetRequest
from sluice.contracts.retrieval import Query
from sluice.otel.context import current_traceparent
from sluice.workers.service import runs
from sluice.workers.service.callers import Caller
from sluice.workers.service.documents import read_document_text
from sluice.workers.service.instance import BROKER_ERRORS, Instance
from sluice.workers.settings import Settings
from sluice_client import errors as client_errors
from sluice_client import models

PATH = "/mcp"
MOST_SESSIONS = 1_000
"""Open sessions of the older era: 18 KB each."""
IDLE_SECONDS = 86_400.0
"""A host that comes back after a night finds its session: most do not open a new one by themselves."""
EVENTS_AT_ONCE = 200

Model = TypeVar("Model", bound=BaseModel)
Done = TypeVar("Done")

_caller: ContextVar[Caller] = ContextVar("mcp_caller")


class Door:
    """An ASGI endpoint that serves MCP for one instance. Opens with its first request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opening = asyncio.Lock()
        self._closing = asyncio.Event()
        self._app: ASGIApp | None = None
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Raises `HTTPException` (401) or `Forbidden` as every other route does."""
        scope["route"] = ROUTE
        request = Request(scope)
        caller = scope.get("caller") or await authenticated(request)
        if self._settings.mcp.stateless and scope["method"] != "POST":
            refused = problem(
                405,
                "method_not_allowed",
                "the door keeps no sessions here: there is nothing but POST",
                headers=ONLY_POST,
            )
            await refused(scope, receive, send)
            return
        app = await self._opened(request.app.state.instance)
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        # The library ties a session to this id: no other key may use or end it.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=caller.owner, scopes=[]))
        token = _caller.set(caller)
        try:
            await app(scope, receive, send)
        finally:
            _caller.reset(token)

    async def close(self) -> None:
        """End all sessions."""
        self._closing.set()
        if self._task:
            await asyncio.wait([self._task], timeout=5.0)
            self._task.cancel()

    async def _opened(self, instance: Instance) -> ASGIApp:
        async with self._opening:
            if self._app is None:
                make_server = await run_in_threadpool(_imported)
                ready: asyncio.Future[ASGIApp] = asyncio.get_running_loop().create_future()
                self._task = asyncio.create_task(self._serve(instance, make_server, ready), name="mcp")
                self._app = await ready
        return self._app

    async def _serve(self, instance: Instance, make_server: Callable[..., Any], ready: asyncio.Future[ASGIApp]) -> None:
        """Hold the session manager open: it must be entered and left in one task."""
        from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
        from mcp.server.transport_security import TransportSecuritySettings

        try:
            server = make_server(lambda: Inside(instance, _caller.get()), version=version("sluice"))
            server.streamable_http_app(
                stateless_http=self._settings.mcp.stateless,
                max_request_body_size=self._settings.max_request_bytes,
                session_idle_timeout=None if self._settings.mcp.stateless else IDLE_SECONDS,
                max_sessions=MOST_SESSIONS,
                transport_security=TransportSecuritySettings(
                    enable_dns_rebinding_protection=False
                ),  # ours is before it
            )
            async with server.session_manager.run():
                ready.set_result(StreamableHTTPASGIApp(server.session_manager))
                await self._closing.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)


ROUTE = Route(PATH, endpoint=lambda request: None)
"""The route as access log, metrics and spans know it."""
ONLY_POST = {"Allow": "POST"}


def _imported() -> Callable[..., Any]:
    try:
        from sluice_client.mcp.tools import make_server
    except ImportError as error:
        raise needed("mcp", error) from error
    logging.getLogger("mcp").setLevel(logging.WARNING)  # a line for each session and call else
    return make_server


class Inside:
    """The calls of the tools (`sluice_client.mcp.port.Port`) for one caller, over the services of this process.

    Answers are the client's models, errors the client's: the tools cannot tell it from a client over HTTP.
    """

    def __init__(self, instance: Instance, caller: Caller) -> None:
        self._instance, self._caller = instance, caller

    async def gate(
        self, query: str, corpus: str = "default", *, wait: bool, idempotency_key: str | None, **fields: Any
    ) -> models.RunAccepted:
        """Begin a gate run."""

        def begin() -> BaseModel:
            self._caller.may_touch(corpus)
            body = checked(GateRequest, query=query, corpus=corpus, **fields)
            return self._instance.service.ask(body, owner=self._caller.owner, idempotency_key=idempotency_key)

        return await _told(models.RunAccepted, begin)

    async def events(self, run_id: str, after: str | None = None) -> AsyncIterator[models.Event]:
        """Yield the run's events until it has ended."""
        await self.run(run_id)
        ledger, seen, has_ended, pause = self._instance.context.ledger, int(after or 0), False, runs.PATIENCE_SECONDS
        announcements = self._instance.announcements
        with announcements.place(self._caller.owner), announcements.of(run_id) as news:
            while True:
                found = await run_in_threadpool(ledger.events_after, run_id, seen, EVENTS_AT_ONCE)
                for position, event in found:
                    seen = position
                    yield models.Event.model_validate_json(event.model_dump_json())
                if not found:
                    if has_ended:
                        return
                    has_ended = await run_in_threadpool(ledger.status_of, run_id) in ENDED
                    if has_ended:
                        continue  # its last events may have come between the two reads
                    await runs.news_or_patience(news, pause)
                pause = runs.PATIENCE_SECONDS if found else min(2 * pause, runs.LONGEST_PATIENCE_SECONDS)

    async def run(self, run_id: str) -> models.RunView:
        """Return a run."""
        return await _told(models.RunView, lambda: self._instance.runs.one(run_id, self._caller))

    async def runs(
        self, *, corpus: str | None = None, limit: int | None = 25, cursor: str | None = None
    ) -> models.Page[models.RunSummary]:
        """List runs, the newest first."""
        most = limit or 25
        found = await _done(lambda: self._instance.runs.recent(self._caller, most + 1, cursor, corpus=corpus))
        data = [_as(models.RunSummary, one) for one in found[:most]]
        return models.Page[models.RunSummary](data=data, next_cursor=data[-1].run_id if len(found) > most else None)

    async def cancel(self, run_id: str) -> models.RunView:
        """Stop the open work of a run."""

        def cancel() -> BaseModel:
            self._instance.runs.one(run_id, self._caller)
            self._instance.service.cancel(run_id)
            return self._instance.runs.one(run_id, self._caller)

        return await _told(models.RunView, cancel)

    async def query(self, query: str, corpus: str = "default", **fields: Any) -> models.Retrieval:
        """Search a corpus."""

        def usable() -> Query:
            self._caller.may_touch(corpus)
            return checked(Query, query=query, corpus=corpus, **fields)

        body = await _done(usable)
        try:
            raw = await self._instance.query_pool.ask(body, current_traceparent())
        except (SluiceError, *BROKER_ERRORS) as error:
            raise _client_error(error) from error
        return models.Retrieval.model_validate_json(raw)

    async def corpora(self, *, limit: int | None = None, cursor: str | None = None) -> models.Page[Any]:
        """List the corpora that the caller may see."""
        names = await _done(self._instance.context.readers.names)
        return models.Page[Any](data=[{"name": name} for name in sorted(names) if self._caller.may_see(name)])

    async def documents(
        self, corpus: str = "default", *, where: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> models.Page[Any]:
        """List documents."""
        raise client_errors.NotInstalled(
            "documents cannot be listed by this version", remedy="find them by sluice_query"
        )

    async def document_text(
        self, document_id: str, corpus: str = "default", start_line: int = 1, end_line: int | None = None
    ) -> models.DocumentText:
        """Return lines of a document's text."""

        def read() -> BaseModel:
            self._caller.may_touch(corpus)
            context = self._instance.context
            trust = context.settings.trust
            return read_document_text(context.readers, trust, corpus, document_id, start_line, end_line)

        return await _told(models.DocumentText, read)

    async def add_documents(
        self, documents: Sequence[Mapping[str, Any]], corpus: str = "default", *, idempotency_key: str | None
    ) -> models.RunAccepted:
        """Submit documents, or URLs to crawl."""
        owner, by_operator = self._caller.owner, self._caller.role == "operator"

        def add() -> BaseModel:
            self._caller.may_touch(corpus)
            body = checked(DocumentsRequest, documents=documents, corpus=corpus)
            add_documents = self._instance.service.add_documents
            return add_documents(body, owner=owner, by_operator=by_operator, idempotency_key=idempotency_key)

        return await _told(models.RunAccepted, add)

    async def count_forgettable(self, corpus: str = "default", **selection: Any) -> models.Meant:
        """Count documents that `forget` would remove."""

        def count() -> int:
            self._caller.may_operate()
            return self._instance.forget.count(checked(ForgetRequest, corpus=corpus, **selection), self._caller)

        return models.Meant(documents=await _done(count))

    async def forget(self, corpus: str = "default", **selection: Any) -> models.RunAccepted:
        """Remove documents with every trace of them."""

        def forget() -> BaseModel:
            self._caller.may_operate()
            return self._instance.forget.forget(checked(ForgetRequest, corpus=corpus, **selection), self._caller)

        return await _told(models.RunAccepted, forget)

    async def feedback(self, run_id: str, **fields: Any) -> dict[str, str]:
        """Give feedback on a run's answer."""

        def give() -> dict[str, str]:
            self._instance.runs.one(run_id, self._caller)
            body = checked(FeedbackRequest, run_id=run_id, **fields)
            is_new = self._instance.service.give_feedback(body, owner=self._caller.owner)
            return {"run_id": run_id, "status": "recorded", "counted": "now" if is_new else "before"}

        return await _done(give)

    async def add_learning(
        self, text: str, project: str, feature: str, *, reason: str, **fields: Any
    ) -> models.LearningResult:
        """Add a learning."""

        def learn() -> BaseModel:
            told = checked(LearningRequest, text=text, project=project, feature=feature, reason=reason, **fields)
            memory = self._instance.memory.of(told.project, self._caller)
            return memory.learn(told.feature, told.text, told.reason, told.source, told.iteration, told.task_id)

        return await _told(models.LearningResult, learn)

    async def record_iteration(
        self, data: str | dict[str, Any] | list[Any], project: str, feature: str, **fields: Any
    ) -> models.IterationAccepted:
        """Record an iteration."""

        def record() -> BaseModel:
            told = checked(IterationSubmission, data=data, project=project, feature=feature, **fields)
            memory = self._instance.memory.of(told.project, self._caller)
            return memory.record(told.feature, told.data, format=told.format, context=told.context)

        return await _told(models.IterationAccepted, record)

    async def recall(
        self, query: str, project: str, feature: str, *, top_k: int = 8, task_id: int | None = None
    ) -> models.Recall:
        """Return what memory holds on a question."""
        memory = self._instance.memory.of(project, self._caller)
        return await _told(models.Recall, lambda: memory.recall(feature, query, top_k, task_id))

    async def memory_prompt(
        self,
        project: str,
        feature: str,
        *,
        task_id: int | None = None,
        query: str | None = None,
        max_tokens: int | None = None,
    ) -> models.PromptBlock:
        """Return a block for the next prompt."""
        memory = self._instance.memory.of(project, self._caller)
        wanted: dict[str, Any] = {"task_id": task_id, "query": query or ""}
        return await _told(models.PromptBlock, lambda: memory.prompt(feature, max_tokens=max_tokens, **wanted))

    async def learnings(self, project: str, feature: str) -> models.Learnings:
        """Return the learnings of a feature."""
        memory = self._instance.memory.of(project, self._caller)
        return await _told(models.Learnings, lambda: memory.learnings(feature, state=None))

    async def memory_features(self, project: str) -> models.Page[str]:
        """List a project's features."""
        memory = self._instance.memory.of(project, self._caller)
        return models.Page[str](data=list(await _done(memory.features)))

    async def graph_neighbours(
        self, node: str, corpus: str = "default", *, direction: Any = None, edges: Sequence[str] = (), limit: int = 25
    ) -> models.Neighbours:
        """Return what is next to a node."""

        def near() -> BaseModel:
            types = tuple(_edge_type(name) for name in edges)
            graph = self._instance.graph
            return graph.neighbours(corpus, node, self._caller, direction=direction, types=types, limit=limit)

        return await _told(models.Neighbours, near)

    async def graph_query(self, query: str, corpus: str = "default", **fields: Any) -> models.CypherResult:
        """Query a graph in Cypher."""

        def ask() -> BaseModel:
            return self._instance.graph.query(
                checked(CypherRequest, query=query, corpus=corpus, **fields), self._caller
            )

        return await _told(models.CypherResult, ask)


def _edge_type(name: str) -> EdgeType:
    try:
        return EdgeType(name)
    except ValueError:
        raise InvalidInput("edge_types", f"no edge is called {name!r}", f"one of {', '.join(EdgeType)}") from None


async def _told(kind: type[Model], work: Callable[[], BaseModel]) -> Model:
    """Do work in a thread; return its value as the client's model. Raises the client's errors."""
    return _as(kind, await _done(work))


def _as(kind: type[Model], value: Any) -> Model:
    return kind.model_validate_json(to_json(value))


async def _done(work: Callable[[], Done]) -> Done:
    try:
        return await run_in_threadpool(work)
    except (SluiceError, *BROKER_ERRORS) as error:
        raise _client_error(error) from error


def _client_error(error: BaseException) -> client_errors.SluiceError:
    match error:
        case InvalidInput():
            return client_errors.error_named(error.code, error.problem, field=error.field, remedy=error.remedy or None)
        case PolicyRefused():
            return client_errors.error_named(
                error.code, error.problem, field=error.rule, remedy=error.lifted_by or None
            )
        case SluiceError():
            return client_errors.error_named(error.code, str(error), remedy=getattr(error, "remedy", None))
        case _:
            return client_errors.Unavailable("the broker or the disk does not answer")
