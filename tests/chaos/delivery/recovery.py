"""How soon the work of a killed process goes on: from the kill until each event that it held is claimed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from tests.chaos.delivery.witness import Fact, facts

_OUTCOMES = ("settled", "retried", "parked")


@dataclass(frozen=True, slots=True)
class Recovery:
    """Seconds per event that a killed process held, shortest first. `kills` counts all, `holding` those that held any."""

    kills: int
    holding: int
    seconds: tuple[float, ...]

    def percentile(self, percent: int) -> float:
        """The value that so many percent do not pass; 0 when nothing was held."""
        if len(self.seconds) < 2:
            return max(self.seconds, default=0.0)
        return quantiles(self.seconds, n=100, method="inclusive")[percent - 1]


def recovery(witness: Path) -> Recovery:
    """What the witness says of every kill."""
    story = list(facts(witness, "killed", "claimed", *_OUTCOMES))
    seconds: list[float] = []
    kills = [(place, fact) for place, fact in enumerate(story) if fact.what == "killed"]
    holding = 0
    for place, kill in kills:
        held = _held(story[:place], kill)
        times = [_seconds_until_taken_up(story[place:], kill.at, claim) for claim in held]
        found = [time for time in times if time is not None]
        seconds += found
        holding += bool(found)
    return Recovery(len(kills), holding, tuple(sorted(seconds)))


def _held(before: Sequence[Fact], kill: Fact) -> list[Fact]:
    """The claims of the killed processes without an outcome, as they were at the kill."""
    claims: dict[tuple[str, int], Fact] = {}
    for fact in before:
        if fact.pid in kill.more["killed"]:
            if fact.what == "claimed":
                claims[fact.event, fact.epoch] = fact
            elif fact.what in _OUTCOMES:
                claims.pop((fact.event, fact.epoch), None)
    return list(claims.values())


def _seconds_until_taken_up(after: Sequence[Fact], killed_at: float, claim: Fact) -> float | None:
    """None when nobody took it up: its outcome was committed, and the kill came before that was witnessed."""
    for fact in after:
        if fact.event == claim.event and (fact.what in _OUTCOMES or fact.epoch > claim.epoch):
            return max(0.0, fact.at - killed_at)
    return None
