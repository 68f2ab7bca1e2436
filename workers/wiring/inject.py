"""Gives a handler what its signature names: each parameter after the event is a member of the process's context."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sluice.contracts.event import Event

Result = TypeVar("Result")


def dependencies(handler: Callable[..., object]) -> tuple[str, ...]:
    """The names of what the handler needs: its parameters after the first, which is the event."""
    return tuple(inspect.signature(handler).parameters)[1:]


def with_dependencies(handler: Callable[..., Result]) -> Callable[[Event, Any], Result]:
    """The handler as a function of the event and a context, from which it gets its dependencies by their names.

    They are looked up when it is called, so that a process builds only what its own stage's handlers need. Whatever
    building one of them raises is raised as if the handler had.
    """
    names = dependencies(handler)

    def handle(event: Event, context: Any) -> Result:
        return handler(event, *(getattr(context, name) for name in names))

    return handle
