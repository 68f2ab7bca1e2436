"""What thresholds cost: how many questions are answered and gone outside for, rightly and wrongly, at stated costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Said(NamedTuple):
    """Cases of one probability: the weight of those that the corpus answered, and of those that it did not."""

    probability: float
    covered: float
    missing: float


@dataclass(frozen=True, slots=True)
class Confusion:
    """Shares of all questions, by what the corpus has and by what is decided. They sum to 1."""

    covered_retrieve: float
    covered_search: float
    covered_full_loop: float
    missing_retrieve: float
    missing_search: float
    missing_full_loop: float

    def cost(self, outside: float, full_loop: float, miss: float) -> float:
        """The mean cost of a question: of going outside where the corpus answers, and of staying where it does not."""
        return self.covered_search * outside + self.covered_full_loop * full_loop + self.missing_retrieve * miss


def count_said(cases: Iterable[tuple[float, bool, float]], decimals: int = 3) -> list[Said]:
    """Cases (probability, whether covered, weight) put together by their rounded probability, lowest first."""
    sums: dict[float, list[float]] = {}
    for probability, is_covered, weight in cases:
        sums.setdefault(round(probability, decimals), [0.0, 0.0])[not is_covered] += weight
    return [Said(probability, *sums[probability]) for probability in sorted(sums)]


def confuse(said: Sequence[Said], search_below: float, full_loop_below: float) -> Confusion:
    """The shares at these thresholds, of cases without age; all of them 0 where there is no case."""
    total = sum(one.covered + one.missing for one in said) or 1.0
    full, search, stay = (
        [one for one in said if one.probability < full_loop_below],
        [one for one in said if full_loop_below <= one.probability < search_below],
        [one for one in said if one.probability >= search_below],
    )
    covered = [sum(one.covered for one in part) / total for part in (stay, search, full)]
    missing = [sum(one.missing for one in part) / total for part in (stay, search, full)]
    return Confusion(*covered, *missing)
