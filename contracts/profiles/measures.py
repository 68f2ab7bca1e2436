"""What the gate of a domain measures beside coverage: how much a brand is spoken of, how far a repository has aged."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sluice.contracts.base import LaterText, Value, is_empty, is_none

Count = Annotated[int, Field(ge=0)]


class MentionVelocity(Value):
    """Documents that name the question's entity, by their date of publication: lately, and in the time before."""

    entity: str
    recent_documents: Count
    recent_days: Annotated[int, Field(ge=1)]
    earlier_documents: Count
    earlier_days: Annotated[int, Field(ge=1)]


class Dependency(Value):
    """A package that the question names and a repository depends on: the version used, the newest that is indexed."""

    name: str
    used: str
    file_path: str
    newest: LaterText = None
    """None where no release of it is indexed."""


class DomainMeasures(Value):
    """Each measured where the profile weighs it, and left out elsewhere."""

    velocity: Annotated[MentionVelocity | None, Field(exclude_if=is_none)] = None
    dependencies: Annotated[tuple[Dependency, ...], Field(exclude_if=is_empty)] = ()
    failing_tests: Annotated[tuple[str, ...], Field(exclude_if=is_empty)] = ()
    """Of the tests that a report names as failing, those that the question's words name too."""
    todo_marks: Annotated[Count | None, Field(exclude_if=is_none)] = None
    """TODO, FIXME, XXX and HACK in the code of the passages found."""
    code_lines: Annotated[Count | None, Field(exclude_if=is_none)] = None
    """Lines of code of the passages found."""
