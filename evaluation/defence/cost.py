"""When the day's ceilings are nearly used up: the gate then answers from the local corpus alone.

A ceiling is no estimate, so one look is enough. The two shares lie apart, so that work which is reserved and given back
does not make the defence alternate; the next UTC day, or a higher ceiling, ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sluice.evaluation.defence.verdicts import Verdict

NEAR = 0.95
"""Share of a day's ceiling from which nothing more is asked outside: what is left is for runs under way."""
FAR = 0.8
"""Share below which it is again."""


class CostVerdict(NamedTuple):
    """`why` names the ceiling that is used up most."""

    verdict: Verdict
    why: str


def judge_cost(used: Mapping[str, float]) -> CostVerdict:
    """What the shares of the day's ceilings that are used say, by setting; without a ceiling it is void."""
    if not used:
        return CostVerdict("void", "no ceiling")
    setting = max(used, key=lambda name: used[name])
    share = used[setting]
    verdict: Verdict = "bad" if share >= NEAR else "good" if share < FAR else "neither"
    return CostVerdict(verdict, f"{share:.0%} of {setting} is used")
