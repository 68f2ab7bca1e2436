"""Retries of calls that the server rejects while it is overloaded, after the time that it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sluice.contracts.errors import Overloaded, Unavailable

Answer = TypeVar("Answer")

TRIES = 6
"""With the pauses below a call survives half a minute of failures, and a full queue for as long as the server names."""
LONGEST_PAUSE_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 1.0


def retry_when_overloaded(call: Callable[[], Answer], sleep: Callable[[float], object]) -> Answer:
    """The answer of `call`, tried again when the server is full (after the pause it asks for) or does not answer.

    Raises:
        Unavailable: the sixth try failed as well; anything that no second try can help is raised at once.
    """
    pause_seconds = FIRST_PAUSE_SECONDS
    for _ in range(TRIES - 1):
        try:
            return call()
        except Overloaded as error:
            sleep(min(error.retry_after_seconds, LONGEST_PAUSE_SECONDS))
        except Unavailable:
            sleep(pause_seconds)
            pause_seconds *= 2
    return call()
