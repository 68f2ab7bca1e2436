"""The first span of a request: a child of the caller's own trace, where the caller sends one."""

from __future__ import annotations

from contextlib import AbstractContextManager

from fastapi import Request
from opentelemetry.trace import Span

from sluice.otel.context import span


def request_span(request: Request, name: str) -> AbstractContextManager[Span]:
    """A server span that continues the request's `traceparent` header (W3C Trace Context)."""
    return span(name, traceparent=request.headers.get("traceparent"), kind="server")
