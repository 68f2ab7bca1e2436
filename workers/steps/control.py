"""What steers one decision beside its profile, as it stands when the decision is made."""

from __future__ import annotations

from contracts.control import Control
from workers.settings import Settings


def read_control(settings: Settings) -> Control:
    """The control of a decision that is made now."""
    return Control(observe=settings.gate.mode == "observe")
