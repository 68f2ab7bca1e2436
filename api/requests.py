"""What every request has: an id, a place in the caller's trace, a line in the access log, a measured time.

Plain ASGI, so that streams are not buffered. HEAD is answered as GET is, without the body (RFC 9110, section 9.3.2).
"""

from __future__ import annotations

import re
import secrets
import time
from contextlib import nullcontext
from typing import TypeVar

import structlog
from fastapi import Request
from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue
from starlette.datastructures import URL, Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from sluice.api.problems import request_id
from sluice.otel import metrics
from sluice.otel.context import current_traceparent, mark_failed, span
from sluice.otel.spans import RUN_ID
from sluice.workers.service.rate_limits import Rate

log = structlog.get_logger("sluice.api.access")
Answer = TypeVar("Answer")

REQUEST_ID, RUN = "X-Request-Id", "Sluice-Run-Id"
SANE_ID = re.compile(r"[A-Za-z0-9._~:/+=-]{1,128}")
"""An id that a caller may give: nothing that could break a line of a log, or a head."""
READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that change nothing (RFC 9110, section 9.2.1)."""
BY_PROBES = ("/livez", "/readyz", "/healthz", "/metrics")
"""Routes that machines ask every few seconds, at the start more often: logged at debug alone."""


def about_run(request: Request, answer: Answer) -> Answer:
    """Return the answer, and name the run that it, or its field `run`, is about: in the response's head, in the access
    log and on the span."""
    request.scope["run_id"] = getattr(getattr(answer, "run", None) or answer, "run_id", None)
    return answer


class Observed:
    """Gives every request its id and its span, logs and measures it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, method = Headers(scope=scope), scope["method"]
        given, traceparent = headers.get(REQUEST_ID, ""), headers.get("traceparent")
        request_id.set(given if SANE_ID.fullmatch(given) else secrets.token_hex(16))
        is_traced = method not in READING or traceparent
        traced = (
            span(f"{method} unmatched", traceparent=traceparent, kind="server", attributes=_asked(scope, headers))
            if is_traced
            else nullcontext()
        )
        with bound_contextvars(request_id=request_id.get()), traced as begun:
            scope = {**scope, "method": "GET" if method == "HEAD" else method}  # a copy: the server reads its own
            exchange = _Exchange(scope, method, send, begun)
            try:
                await self._app(scope, exchange.receiving(receive), exchange.send)
            except Exception:
                exchange.tell(500)
                raise


def _asked(scope: Scope, headers: Headers) -> dict[str, AttributeValue | None]:
    """Return what OpenTelemetry's conventions (HTTP servers) ask of a request's span, but its query."""
    url = URL(scope=scope)
    return {
        "http.request.method": scope["method"],
        "url.scheme": url.scheme,
        "url.path": url.path,
        "server.address": url.hostname,
        "server.port": url.port,
        "client.address": (scope.get("client") or (None,))[0],
        "network.protocol.version": scope.get("http_version"),
        "user_agent.original": headers.get("user-agent"),
    }


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, method: str, send: Send, begun: Span | None) -> None:
        self._scope, self._method, self._send, self._span = scope, method, send, begun
        self._started, self._is_told = time.perf_counter(), False
        self._is_head_sent = False

    def receiving(self, receive: Receive) -> Receive:
        """Return `receive`; where only a head is asked for, the client is gone as soon as that is sent."""

        async def received() -> Message:
            return {"type": "http.disconnect"} if self._is_head_sent else await receive()

        return received if self._method == "HEAD" else receive

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            seconds = self.tell(message["status"])
            told = MutableHeaders(raw=message.setdefault("headers", []))
            told[REQUEST_ID] = request_id.get() or ""
            told["Server-Timing"] = f"total;dur={1_000 * seconds:.1f}"
            if self._span and (traceparent := current_traceparent()):
                told["traceparent"] = traceparent
            rate: Rate | None = self._scope.get("rate")
            told.update(rate.headers() if rate else {})
            if run_id := self._run_id:
                told[RUN] = run_id
            message["headers"] = told.raw
        elif self._method == "HEAD":
            if self._is_head_sent:
                return
            self._is_head_sent = True
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    @property
    def _run_id(self) -> str | None:
        named = self._scope.get("run_id") or self._scope.get("path_params", {}).get("run_id") or ""
        return named if SANE_ID.fullmatch(named) else None

    def tell(self, status: int) -> float:
        """Log and measure the response, once; return the seconds until it began."""
        seconds = time.perf_counter() - self._started
        if self._is_told:
            return seconds
        self._is_told = True
        route = getattr(self._scope.get("route"), "path", "unmatched")
        labels = (route, self._method, str(status))
        metrics.HTTP_REQUESTS.labels(*labels).inc()
        metrics.HTTP_REQUEST_SECONDS.labels(*labels).observe(seconds, metrics.current_exemplar(self._run_id))
        facts = {"method": self._method, "route": route, "status": status, "milliseconds": round(1_000 * seconds, 1)}
        caller = self._scope.get("caller")
        named = {"run_id": self._run_id, "caller": caller.owner if caller else None}
        (log.debug if route in BY_PROBES else log.info)("request", **facts, **{k: v for k, v in named.items() if v})
        if self._span:
            self._span.update_name(f"{self._method} {route}")
            self._span.set_attributes(
                {"http.route": route, "http.response.status_code": status}
                | ({RUN_ID: self._run_id} if self._run_id else {})
                | ({"error.type": str(status)} if status >= 500 else {})
            )
            if status >= 500:
                mark_failed(self._span, f"answered {status}")
        return seconds
