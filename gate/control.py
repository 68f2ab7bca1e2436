"""What flags, the gate's own steps back and the observing mode deny a plan."""

from __future__ import annotations

from typing import Literal

from sluice.contracts.learning.control import Control, Defence
from sluice.gate.veto import Denial

_BOTH: tuple[Literal["search", "crawl"], ...] = ("crawl", "search")


def control_denials(control: Control) -> tuple[Denial, ...]:
    """What `control` denies: everything outside while observing; searching or crawling by flag; and by steps back."""
    denials = []
    if control.observe:
        denials += _deny("observe", "the gate only observes", 'gate.mode = "enforce" in sluice.toml')
    for capability in _BOTH:
        if capability in control.flags_off:
            lift = f"sluice flags on {capability}"
            denials.append(Denial(f"flag_{capability}", capability, f"the flag {capability} is off", lift))
    if not control.is_trickle:
        for defence in control.defences:
            denials += _denied_by(defence)
    return tuple(denials)


def _denied_by(defence: Defence) -> list[Denial]:
    """What one step back denies; nothing where the configuration before decides in its place."""
    name = f"self_defence_{defence.name}"
    match defence.step:
        case "retrieve_only":
            return _deny(name, defence.why, defence.lifted_by)
        case "lower_plan":
            return [Denial(name, "crawl", defence.why, defence.lifted_by)]
        case "previous_configuration":
            return []


def _deny(name: str, why: str, lifted_by: str) -> list[Denial]:
    return [Denial(name, capability, why, lifted_by) for capability in _BOTH]
