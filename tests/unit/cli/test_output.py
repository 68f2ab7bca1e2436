"""How commands end that fail: a message, and an exit code by the kind of error."""

from __future__ import annotations

import json

import pytest
import typer

from cli.output import fail
from contracts.errors import NotFound, Overloaded, SluiceError, TimedOut


@pytest.mark.parametrize(
    ("error", "code"), [(Overloaded("the queue is full", 7.5), 7), (TimedOut("too slow"), 6), (NotFound("no run"), 3)]
)
def test_an_error_leaves_with_the_code_of_its_kind(error: SluiceError, code: int) -> None:
    with pytest.raises(typer.Exit) as left:
        fail(error)
    assert left.value.exit_code == code


def test_a_program_is_told_when_to_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        fail(Overloaded("the queue is full", 7.5), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["error"], told["retry_after_seconds"]) == ("overloaded", 7.5)
