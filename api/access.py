"""Checks API keys: each has a role and a list of corpora.

On loopback no key is needed until one was made: it is the user's own machine. From then on every request needs one,
even after all were revoked, unless `require_api_key` says otherwise. The command line sends the key in the data
directory (`LocalKey`), which may do everything, from this machine alone. On loopback a `Host` header that is not this
machine's is refused, against DNS rebinding.

An operator whose key lists corpora operates on what belongs to them (dead letters, replays). What the whole instance
shares (stages, hosts, metrics) needs an operator of all corpora.

`WritingDoor` refuses changes that a web page of another origin makes a browser send (cross-site request forgery).
The browser names that page in `Origin` (RFC 6454, section 7) and `Sec-Fetch-Site` (W3C Fetch Metadata); programs send
neither. Reading needs no check: a page cannot see a response without CORS headers, which only the origins in
`cors_origins` get; these may write too.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Header, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluice.api.problems import problem
from sluice.api.requests import READING
from sluice.contracts.base import CORPUS_NAME
from sluice.contracts.errors import Forbidden, RateLimited
from sluice.workers.service.callers import OWN_MACHINE, Caller, LocalKey, is_loopback
from sluice.workers.service.instance import Instance

_bearer = HTTPBearer(auto_error=False, description="An API key made by `sluice keys NAME --create`")

Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


UPLOADS, ARTEFACTS, TAR = "/v1/uploads", "/v1/artefacts", "application/x-tar"
STREAMED = {UPLOADS: "multipart/form-data", ARTEFACTS: TAR}
"""The routes whose bodies are streamed to the disk, so that more of them may come, and the media type of each."""
CONSOLE = "/console"
"""The pages for people, which sign in by a session and check it themselves, before they read the form."""
MCP = "/mcp"
"""The route that tells an agent itself of too many requests, by the tools' own errors."""
OWN_SITES = frozenset({"same-origin", "none"})
"""`Sec-Fetch-Site` of a page of this very origin, and of a person who typed the address."""
DEFAULT_PORTS = {"http": 80, "https": 443}


def instance_of(request: Request) -> Instance:
    """Return the instance that a request is for."""
    instance: Instance = request.app.state.instance
    return instance


async def caller_of(request: Request, credentials: Credentials = None) -> Caller:
    """Identify the caller of a request, and count the request once. Raises `HTTPException` (401) if a key is needed and
    none, or an unknown one, is given; `Forbidden` if the `Host` header names another machine; `RateLimited`."""
    caller = await _caller_of(request, credentials)
    await counted(request, caller)
    return caller


async def counted(request: Request, caller: Caller) -> None:
    """Count the request once. Raises `RateLimited` if that is one too many of the caller."""
    if "rate" not in request.scope:
        rate = request.scope["rate"] = await instance_of(request).rates.count(caller)
        if rate and rate.retry_after_seconds:
            raise RateLimited(f"this key may send {rate.per_minute} requests a minute", rate.retry_after_seconds)


async def _caller_of(request: Request, credentials: Credentials) -> Caller:
    """Identify the caller, once. The ledger is read in a thread, so that a slow read does not stop other requests."""
    if "caller" not in request.scope:
        is_known = instance_of(request).keys.is_known(credentials.credentials if credentials else None)
        identified = partial(_identified, request, credentials)
        request.scope["caller"] = identified() if is_known else await run_in_threadpool(identified)
    caller: Caller = request.scope["caller"]
    return caller


async def authenticated(request: Request) -> Caller:
    """Identify the caller of a request that FastAPI's dependencies do not see. Raises as `caller_of` does."""
    return await caller_of(request, await _bearer(request))


async def whole_caller_of(request: Request, credentials: Credentials = None) -> Caller | None:
    """Return the caller if it may see every corpus; None for any other, which is not refused."""
    try:
        caller = await _caller_of(request, credentials)
    except (HTTPException, Forbidden):
        return None
    return caller if caller.corpora is None else None


def _identified(request: Request, credentials: Credentials) -> Caller:
    instance = instance_of(request)
    settings, keys = instance.settings, instance.keys
    require_own_host(request)
    is_of_this_machine = request.client is not None and is_loopback(request.client.host)
    if credentials and is_of_this_machine and LocalKey(settings.data_dir).is_it(credentials.credentials):
        return OWN_MACHINE
    if credentials:
        key = keys.find(credentials.credentials)
        if key is None:
            raise _unauthorized("this API key is not known, was revoked or has expired")
        return Caller.of(key)
    if not is_loopback(settings.http_host) or keys.needed(settings.require_api_key):
        raise _unauthorized("send an API key: Authorization: Bearer …")
    return OWN_MACHINE


OperatorName = Annotated[str | None, Header(alias="X-Sluice-Operator", max_length=64, include_in_schema=False)]


async def operator_of(caller: Annotated[Caller, Depends(caller_of)], operator_name: OperatorName = None) -> Caller:
    """Require an operator. A caller from this machine without a named key may give its name in a header."""
    caller.may_operate()
    return replace(caller, owner=operator_name) if operator_name and caller is OWN_MACHINE else caller


async def instance_operator_of(operator: Annotated[Caller, Depends(operator_of)]) -> Caller:
    """Require an operator of all corpora."""
    operator.may_operate_instance()
    return operator


AnyCaller = Annotated[Caller, Depends(caller_of)]
Operator = Annotated[Caller, Depends(operator_of)]
InstanceOperator = Annotated[Caller, Depends(instance_operator_of)]
WholeCaller = Annotated[Caller | None, Depends(whole_caller_of)]
Corpus = Annotated[str, Query(pattern=rf"^{CORPUS_NAME.pattern}$")]
Note = Annotated[str, Query(max_length=1_000, description="Why, for the record")]


def require_own_host(request: Request) -> None:
    """Raise `Forbidden` if an interface on loopback is called by another machine's name (DNS rebinding)."""
    if is_loopback(instance_of(request).settings.http_host) and not is_loopback(_host_of(request)):
        raise Forbidden("the Host header does not name this machine")


def _host_of(request: Request) -> str:
    try:
        return request.url.hostname or ""
    except ValueError:  # the header is no host at all
        return ""


def _unauthorized(message: str) -> HTTPException:
    return HTTPException(401, message, {"WWW-Authenticate": "Bearer"})


class WritingDoor:
    """Checks a request that may change something before any of its body is read: it comes from no page of another
    origin (403), its key is known (401), its body is not too large (413), files come as a form (415), and the disk
    has room for what is uploaded (507). Stands inside of what answers errors."""

    def __init__(
        self, app: ASGIApp, most_body_bytes: int, most_upload_bytes: int, origins: Collection[str] = ()
    ) -> None:
        self._app, self._most_body_bytes, self._most_upload_bytes = app, most_body_bytes, most_upload_bytes
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http" or scope["method"] in READING:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if request.headers.get("origin") not in self._origins and not is_own(request.headers):
            detail, remedy = "a web page of another origin may not change anything here", "send it from a program"
            await problem(403, Forbidden.code, detail, remedy=remedy)(scope, receive, send)
            return
        if not scope["path"].startswith(CONSOLE + "/"):
            with suppress(*([RateLimited] if scope["path"] == MCP else [])):
                await authenticated(request)
        received, streamed = 0, STREAMED.get(scope["path"]) if scope["method"] == "POST" else None
        most = self._most_upload_bytes if streamed else self._most_body_bytes
        too_large = HTTPException(413, f"a body has at most {most} bytes: send fewer at once")

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise too_large
            return message

        if int(request.headers.get("content-length", 0)) > most:
            raise too_large
        if streamed:
            if not request.headers.get("content-type", "").lower().startswith(streamed):
                raise HTTPException(415, f"send it as {streamed}")
            await run_in_threadpool(instance_of(request).uploads.require_room)
        await self._app(scope, limited, send)


def is_own(headers: Headers) -> bool:
    """Return whether no page of another origin sent it. Schemes are not compared: a proxy before us may speak TLS."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in OWN_SITES:
        return False
    origin = headers.get("origin")
    return origin is None or _is_same_host(origin, headers.get("host", ""))


def _is_same_host(origin: str, host: str) -> bool:
    try:
        page, own = urlsplit(origin), urlsplit(f"{urlsplit(origin).scheme}://{host}")
        default = DEFAULT_PORTS.get(page.scheme)
        return (page.hostname, page.port or default) == (own.hostname, own.port or default) and bool(page.hostname)
    except ValueError:  # no origin at all
        return False
