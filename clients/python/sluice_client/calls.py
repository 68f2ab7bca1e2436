"""One operation of the HTTP interface, described without saying how it travels.

A method that is decorated with `operation` returns a `Call`; on a `SluiceClient` it sends it and gives the answer, on
an `AsyncSluiceClient` it gives an awaitable of the answer. So each operation stands once.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload
from urllib.parse import quote

if TYPE_CHECKING:
    from sluice_client.client import AsyncSluiceClient, SluiceClient

Answer = TypeVar("Answer")
Parameters = ParamSpec("Parameters")

SAFE_TO_REPEAT = frozenset({"GET", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A request and the type of its answer.

    `route` holds `{}` for each of `parts`. `is_repeatable`: sent twice it means the same as sent once, so that it is
    tried again where a connection breaks; what has an idempotency key always is. `patience_seconds` is what the answer
    may take beyond the client's time-out. `answer` names a model, or one for each status.
    """

    method: str
    route: str
    parts: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    is_repeatable: bool = False
    idempotency_key: str | None = None
    patience_seconds: float = 0.0
    answer: str | Mapping[int, str] = "None"
    also_good: tuple[int, ...] = ()

    @property
    def path(self) -> str:
        """The path, each part escaped."""
        return self.route.format(*(quote(part, safe="") for part in self.parts))

    @property
    def may_repeat(self) -> bool:
        """Whether it may be sent again when it may have arrived."""
        return self.is_repeatable or self.idempotency_key is not None or self.method in SAFE_TO_REPEAT


class operation(Generic[Parameters, Answer]):  # noqa: N801 - a decorator
    """Makes a method that describes a call one that sends it. The type of the answer is read from its annotation."""

    def __init__(self, describe: Callable[Concatenate[Any, Parameters], Call[Answer]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__
        annotated = str(describe.__annotations__["return"]).removeprefix("Call[").removesuffix("]")
        self._answer = annotated.replace("models.", "")

    def call(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Call[Answer]:
        """The call that the method describes."""
        described = self.describe(None, *args, **kwargs)
        return described if isinstance(described.answer, Mapping) else replace(described, answer=self._answer)

    @overload
    def __get__(self, client: None, owner: type) -> operation[Parameters, Answer]: ...
    @overload
    def __get__(self, client: SluiceClient, owner: type) -> Callable[Parameters, Answer]: ...
    @overload
    def __get__(self, client: AsyncSluiceClient, owner: type) -> Callable[Parameters, Awaitable[Answer]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """The method of a client; of the class the operation itself."""
        if client is None:
            return self

        @wraps(self.describe)
        def send(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            return client.send(self.call(*args, **kwargs))

        return send


def get(route: str, *parts: str, **query: Any) -> Call[Any]:
    """A call that reads. Parameters that are None are left out."""
    return Call("GET", route, parts, queried(query))


def post(route: str, *parts: str, body: Any = None, is_repeatable: bool = False, **query: Any) -> Call[Any]:
    """A call that begins or changes something, or asks with a body."""
    return Call("POST", route, parts, queried(query), body, is_repeatable)


def starting(route: str, body: Any, idempotency_key: str | None) -> Call[Any]:
    """A call that starts a run, once however often it is sent. Without a key it gets a fresh one."""
    return Call("POST", route, body=body, idempotency_key=idempotency_key or secrets.token_hex(16))


def queried(parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Parameters as they stand in a URL: one for each member of a list, none for None."""
    told: list[tuple[str, str]] = []
    for name, value in parameters.items():
        several = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        told += [(name, _written(one)) for one in several if one is not None]
    return tuple(told)


def plain(value: Any) -> Any:
    """A value as JSON has it: models and moments too."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(one) for one in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.isoformat() if hasattr(value, "isoformat") else value)
