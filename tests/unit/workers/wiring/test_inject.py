"""A handler names what it needs in its signature, and gets it from the context of its process."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from sluice.contracts.event import Event
from sluice.contracts.gate import GateRequested
from sluice.workers.context import Context, lazy
from sluice.workers.handlers import HANDLERS, PIPELINE
from sluice.workers.wiring.inject import Step, dependencies, with_dependencies

EVENT = Event.of(GateRequested(query="q"), run_id="run_1", corpus="c")


class _Counting:
    """A context of two members, of which each counts how often it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @property
    def number(self) -> int:
        self.asked.append("number")
        return 7

    @property
    def refusing(self) -> int:
        self.asked.append("refusing")
        raise ValueError("cannot be built")


def _parameters() -> Iterator[tuple[str, str, str]]:
    for kind, handler in PIPELINE.items():
        for name, annotation in dependencies(handler).items():
            yield from _members(kind, name, annotation, handler.__globals__)


def _members(kind: str, name: str, annotation: str, names: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What is asked of the context: of a step, what its fields name."""
    step = names.get(annotation)
    if isinstance(step, type) and issubclass(step, Step):
        for field in dataclasses.fields(step):  # type: ignore[arg-type]
            yield from _members(kind, field.name, str(field.type), vars(sys.modules[step.__module__]))
    else:
        yield kind, name, annotation


@pytest.mark.parametrize(("kind", "name", "annotation"), list(_parameters()))
def test_what_a_handler_names_is_a_member_of_the_context_and_of_that_type(
    kind: str, name: str, annotation: str
) -> None:
    assert kind in HANDLERS
    if name == "settings":
        assert annotation == "Settings"
        return
    member = vars(Context)[name]
    assert isinstance(member, lazy)
    assert inspect.signature(member.build).return_annotation == annotation


def test_only_what_a_handler_names_is_built() -> None:
    context = _Counting()
    assert with_dependencies(lambda event, number: (event.id, number))(EVENT, context) == (EVENT.id, 7)
    assert context.asked == ["number"]


def test_what_building_a_dependency_raises_is_the_handlers_error() -> None:
    with pytest.raises(ValueError, match="cannot be built"):
        with_dependencies(lambda event, refusing: refusing)(EVENT, _Counting())


@pytest.mark.parametrize("kind", PIPELINE)
def test_a_handler_names_no_more_than_five_things(kind: str) -> None:
    assert len(dependencies(PIPELINE[kind])) <= 5
