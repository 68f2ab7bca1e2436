"""Who may do what: API keys with a role and a list of corpora.

On loopback and without keys no key is needed, as it is the user's own machine. Once a key was made every request
needs one, also after all were revoked, unless `require_api_key` says otherwise. A `Host` header that is not this
machine's is refused on loopback, so that a web page cannot reach the interface by a name of its own.

An operator whose key lists corpora operates on what belongs to them (dead letters, replays). What the whole instance
shares (stages, hosts, metrics) needs an operator of all corpora.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from sluice.contracts.errors import Forbidden
from sluice.workers.service.api_keys import KeyRecord, is_loopback
from sluice.workers.service.caller import OWN_MACHINE, Caller
from sluice.workers.service.instance import Instance

_bearer = HTTPBearer(auto_error=False, description="An API key made by `sluice keys create`")


Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def instance_of(request: Request) -> Instance:
    """The instance that a request is for."""
    instance: Instance = request.app.state.instance
    return instance


async def caller_of(request: Request, credentials: Credentials = None) -> Caller:
    """The caller of a request. Reading the ledger is left to a thread: a slow one must not stop the others.

    Raises:
        HTTPException: 401 when a key is needed and none, or an unknown one, is given.
        Forbidden: the `Host` header names another machine.
    """
    if instance_of(request).keys.is_known(credentials.credentials if credentials else None):
        return _identified(request, credentials)
    return await run_in_threadpool(_identified, request, credentials)


async def whole_caller_of(request: Request, credentials: Credentials = None) -> Caller | None:
    """The caller, if it may see every corpus; None for any other, which is not refused."""
    try:
        caller = await caller_of(request, credentials)
    except (HTTPException, Forbidden):
        return None
    return caller if caller.corpora is None else None


def _identified(request: Request, credentials: Credentials) -> Caller:
    instance = instance_of(request)
    settings, keys = instance.settings, instance.keys
    if is_loopback(settings.http_host) and not is_loopback(_host_of(request)):
        raise Forbidden("the Host header does not name this machine")
    if credentials:
        key = keys.find(credentials.credentials)
        if key is None:
            raise _unauthorized("this API key is not known or was revoked")
        return _caller(key)
    if not is_loopback(settings.http_host) or keys.needed(settings.require_api_key):
        raise _unauthorized("send an API key: Authorization: Bearer …")
    return OWN_MACHINE


async def operator_of(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """The caller, who has to be an operator."""
    caller.may_operate()
    return caller


async def instance_operator_of(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """The caller, who has to be an operator of all corpora."""
    caller.may_operate_instance()
    return caller


AnyCaller = Annotated[Caller, Depends(caller_of)]
Operator = Annotated[Caller, Depends(operator_of)]
InstanceOperator = Annotated[Caller, Depends(instance_operator_of)]
WholeCaller = Annotated[Caller | None, Depends(whole_caller_of)]


def _caller(key: KeyRecord) -> Caller:
    return Caller(key.id, key.role, frozenset(key.corpora) or None)


def _host_of(request: Request) -> str:
    try:
        return request.url.hostname or ""
    except ValueError:  # the header is no host at all
        return ""


def _unauthorized(message: str) -> HTTPException:
    return HTTPException(401, message, {"WWW-Authenticate": "Bearer"})
