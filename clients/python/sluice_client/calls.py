"""One operation of the HTTP interface, described without its transport.

A method decorated with `request` declares a call by its signature: parameters that the route names are parts of it, the
others stand in the query, or with `in_body` in a JSON object. One decorated with `operation` returns its `Call`. On a
`SluiceClient` such a method sends the call and returns the answer, on an `AsyncSluiceClient` it returns an awaitable of
the answer. So each operation is written once.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload
from urllib.parse import quote

if TYPE_CHECKING:
    from sluice_client.client import AsyncSluiceClient, SluiceClient

Answer = TypeVar("Answer")
Parameters = ParamSpec("Parameters")

_NAMED = re.compile(r"{(\w+)}")
SAFE_TO_REPEAT = frozenset({"GET", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """A request and the type of its answer. `route` holds `{}` for each of `parts`. `is_repeatable`: sending it twice
    has the effect of sending it once, so it is tried again when a connection breaks, as are GET, PUT, DELETE and calls
    with an idempotency key. `patience_seconds` is time for the answer beyond the client's time-out. `answer` names a
    model, or one for each status; a response with an `also_good` status holds it too."""

    method: str
    route: str
    parts: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    content_type: str = "application/json"
    is_repeatable: bool = False
    idempotency_key: str | None = None
    if_match: str | None = None
    patience_seconds: float = 0.0
    answer: str | Mapping[int, str] = "None"
    also_good: tuple[int, ...] = ()

    @property
    def path(self) -> str:
        """The path, with each part escaped."""
        return self.route.format(*(quote(part, safe="") for part in self.parts))

    @property
    def may_repeat(self) -> bool:
        """Whether the call may be sent again after it may have arrived."""
        return self.is_repeatable or self.idempotency_key is not None or self.method in SAFE_TO_REPEAT


class operation(Generic[Parameters, Answer]):  # noqa: N801 - a decorator
    """Turns a method that describes a call into one that sends it. Its annotation names the type of the answer."""

    def __init__(self, describe: Callable[Concatenate[Any, Parameters], Call[Answer]]) -> None:
        self.describe = describe
        self.__doc__ = describe.__doc__
        annotated = str(describe.__annotations__["return"]).replace("models.", "")
        self._answer = annotated[5:-1] if annotated.startswith("Call[") else annotated

    def call(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Call[Answer]:
        """Return the call that the method describes."""
        described = self.described(*args, **kwargs)
        return described if isinstance(described.answer, Mapping) else replace(described, answer=self._answer)

    def described(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Call[Answer]:
        """Return the call, the type of its answer possibly left out."""
        return self.describe(None, *args, **kwargs)

    @overload
    def __get__(self, client: None, owner: type) -> operation[Parameters, Answer]: ...
    @overload
    def __get__(self, client: SluiceClient, owner: type) -> Callable[Parameters, Answer]: ...
    @overload
    def __get__(self, client: AsyncSluiceClient, owner: type) -> Callable[Parameters, Awaitable[Answer]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the method of a client; on the class, return the operation itself."""
        if client is None:
            return self

        @wraps(self.describe)
        def send(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            return client.send(self.call(*args, **kwargs))

        return send


class _Declared(operation[Parameters, Answer]):
    """An operation whose call follows from the method's signature."""

    def __init__(
        self, method: Callable[Concatenate[Any, Parameters], Answer], template: Call[Answer], *, in_body: bool
    ) -> None:
        super().__init__(cast("Any", method))
        self._template = template
        self._in_body = in_body

    def described(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Call[Answer]:
        told = signature(self.describe)
        bound = told.bind(None, *args, **kwargs)
        bound.apply_defaults()
        values: dict[str, Any] = {}
        for name, value in list(bound.arguments.items())[1:]:
            values |= value if told.parameters[name].kind is Parameter.VAR_KEYWORD else {name: value}
        named = _NAMED.findall(self._template.route)
        parts = tuple(values.pop(name) for name in named)
        sent: dict[str, Any] = {"body": values} if self._in_body else {"query": queried(values)}
        return replace(self._template, route=_NAMED.sub("{}", self._template.route), parts=parts, **sent)


def request(
    line: str, *, in_body: bool = False, **options: Any
) -> Callable[[Callable[Concatenate[Any, Parameters], Answer]], operation[Parameters, Answer]]:
    """Declare an operation by its method and route, as in `GET /v1/runs/{run_id}`.

    With `in_body` the parameters are sent in a JSON object; else in the query, where those that are None are left out.
    `options` are fields of `Call`.
    """
    method, _, route = line.partition(" ")
    return lambda declared: _Declared(declared, Call(method, route, **options), in_body=in_body)


def starting(route: str, body: Any, idempotency_key: str | None) -> Call[Any]:
    """Return a call that starts one run, however often it is sent. Without a key it gets a fresh one."""
    return Call("POST", route, body=body, idempotency_key=idempotency_key or secrets.token_hex(16))


def queried(parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return parameters as pairs for a URL: one for each member of a list, none for None."""
    told: list[tuple[str, str]] = []
    for name, value in parameters.items():
        several = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        told += [(name, _written(one)) for one in several if one is not None]
    return tuple(told)


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it, with models and moments converted."""
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
