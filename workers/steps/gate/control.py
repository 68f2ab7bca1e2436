"""What steers one decision beside its profile, as it stands when the decision is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.contracts.learning.control import Control, FlagName
from sluice.gate.profile import Profile
from sluice.workers.runtime.standing_defences import StepsBack
from sluice.workers.settings import Settings


def read_control(settings: Settings, flags_off: tuple[FlagName, ...], steps_back: StepsBack) -> Control:
    """The control of a decision that is made now."""
    return Control(
        observe=settings.gate.mode == "observe",
        flags_off=flags_off,
        defences=steps_back.defences,
        is_trickle=steps_back.is_trickle,
        fallback_from=steps_back.fallback_from,
    )


def choose_weights(profile: Profile, former: Mapping[str, Profile], flags_off: Sequence[FlagName]) -> Profile:
    """The profile that decides: its version before, where there is one, while the flag `gate_weights` is off."""
    return former.get(profile.name, profile) if "gate_weights" in flags_off else profile
