"""Gives a handler what its signature names: each parameter after the event is a member of the process's context.

Parts that are always used together form a `Step`: a frozen value whose fields are again members of the context, or
other steps. A handler that names a step gets it with all of these.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from sluice.contracts.event import Event

Result = TypeVar("Result")


class Step:
    """A part of the handlers' work with its dependencies. Subclasses are frozen dataclasses."""


SomeStep = TypeVar("SomeStep", bound=Step)


def assemble(step: type[SomeStep], context: Any) -> SomeStep:
    """Build the step with the members of the context that its fields name."""
    names = vars(sys.modules[step.__module__])
    fields = {field.name: field.type for field in dataclasses.fields(step)}  # type: ignore[arg-type]
    return step(**{name: _given(name, kind, names, context) for name, kind in fields.items()})


def dependencies(handler: Callable[..., object]) -> dict[str, Any]:
    """Return the handler's dependencies: its parameters after the first, which is the event, with their annotations."""
    parameters = list(inspect.signature(handler).parameters.values())[1:]
    return {parameter.name: parameter.annotation for parameter in parameters}


def with_dependencies(handler: Callable[..., Result]) -> Callable[[Event, Any], Result]:
    """Wrap the handler as a function of the event and a context, from which it gets its dependencies by their names.

    They are looked up when it is called, so that a process builds only what its own stage's handlers need. Whatever
    building one of them raises is raised as if the handler had.
    """
    needed, names = dependencies(handler), handler.__globals__

    @wraps(handler)
    def handle(event: Event, context: Any) -> Result:
        return handler(event, *(_given(name, kind, names, context) for name, kind in needed.items()))

    return handle


def build(handler: Callable[[Event, Any], object], context: Any) -> None:
    """Build what a handler of `with_dependencies` needs, before its first event. Raises as the handler would."""
    own: Any = inspect.unwrap(handler)
    for name, kind in dependencies(own).items():
        _given(name, kind, own.__globals__, context)


def _given(name: str, annotation: object, names: Mapping[str, Any], context: Any) -> object:
    """Return a step if the annotation names one in its module, else the context's member of that name."""
    kind = names.get(str(annotation))
    if isinstance(kind, type) and issubclass(kind, Step):
        return assemble(kind, context)
    return getattr(context, name)
