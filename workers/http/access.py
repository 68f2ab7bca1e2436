"""Who may do what: API keys with a role and a list of corpora.

On loopback and without keys the door is open, as it is the user's own machine. As soon as one key
exists, or `require_api_key` is set, every request needs one. A `Host` header that is not this
machine's is refused on loopback, so that a web page cannot reach the interface by a name of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from contracts.errors import Forbidden
from workers.api_keys import ApiKeys, is_loopback
from workers.keys_table import KeyRecord
from workers.settings import Settings

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "testserver"})

_bearer = HTTPBearer(auto_error=False, description="An API key made by `sluice keys create`")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever makes a request."""

    owner: str
    role: str
    corpora: frozenset[str] | None
    """The corpora that the key may touch; None for all."""

    def may_touch(self, corpus: str) -> None:
        """Refuse a corpus that is not this caller's.

        Raises:
            Forbidden: the key does not list it.
        """
        if self.corpora is not None and corpus not in self.corpora:
            raise Forbidden(f"this key may not touch corpus {corpus!r}")

    def may_operate(self) -> None:
        """Refuse whoever is not an operator.

        Raises:
            Forbidden: the key's role is another.
        """
        if self.role != "operator":
            raise Forbidden("this needs a key with the role operator")


OWN_MACHINE = Caller("local", "operator", None)


async def caller_of(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None
) -> Caller:
    """The caller of a request.

    Raises:
        HTTPException: 401 when a key is needed and none, or an unknown one, is given.
        Forbidden: the `Host` header names another machine.
    """
    settings: Settings = request.app.state.settings
    keys: ApiKeys = request.app.state.api_keys
    if is_loopback(settings.http_host) and (request.url.hostname or "") not in LOCAL_NAMES:
        raise Forbidden(f"Host {request.url.hostname!r} is not this machine")
    if credentials:
        key = keys.find(credentials.credentials)
        if key is None:
            raise _unauthorized("this API key is not known or was revoked")
        return _caller(key)
    if settings.require_api_key or not is_loopback(settings.http_host) or keys.any_active():
        raise _unauthorized("send an API key: Authorization: Bearer …")
    return OWN_MACHINE


async def operator_of(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """The caller, who has to be an operator."""
    caller.may_operate()
    return caller


AnyCaller = Annotated[Caller, Depends(caller_of)]
Operator = Annotated[Caller, Depends(operator_of)]


def _caller(key: KeyRecord) -> Caller:
    return Caller(key.id, key.role, frozenset(key.corpora) or None)


def _unauthorized(message: str) -> HTTPException:
    return HTTPException(401, message, {"WWW-Authenticate": "Bearer"})
