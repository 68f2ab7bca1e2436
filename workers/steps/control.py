"""What steers one decision beside its profile, as it stands when the decision is made."""

from __future__ import annotations

from contracts.control import Control
from workers.runtime.standing_defences import StepsBack
from workers.settings import Settings


def read_control(settings: Settings, steps_back: StepsBack) -> Control:
    """The control of a decision that is made now."""
    return Control(
        observe=settings.gate.mode == "observe",
        defences=steps_back.defences,
        is_trickle=steps_back.is_trickle,
        fallback_from=steps_back.fallback_from,
    )
