"""How often the check for duplicates merges opposites, and how many paraphrases it recognises.

`python -m bench.memory.duplicates [PAIRS]`: the sets by rule and the pairs written by hand, by topic, and CondaQA's
development pairs where their file is given. Beside it the rule that merges what has a Jaccard similarity above 0.7, and
the time of a check against 500 learnings.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.memory.pairs.pair import Pair, condaqa, made, written
from sluice.contracts.memory.learning import FeatureLearning
from sluice.memory.learning.deduplication import Conflict, Duplicate, check_deduplication

MANY_TOPICS = 20
"""A set by rule has few; in one by hand each pair is its own."""
Verdict = Callable[[str, str], str]


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of the pairs of a set: paraphrases recognised, others merged, and either kind shown side by side."""

    pairs: int
    recognised: float
    merged: float
    beside: float
    same_beside: float

    def __str__(self) -> str:
        shares = f"{self.recognised:.3f} | {self.merged:.4f} | {self.beside:.3f} | {self.same_beside:.3f}"
        return f"{self.pairs:5} | {shares}"


def main() -> None:
    """Prints the tables."""
    print("set, fold | pairs | paraphrases recognised | others merged | others side by side | paraphrases side by side")
    for name, pairs in own_sets().items():
        print(f"{name:12} {'all':8} |", rates(pairs, verdict))
        print(f"{name:12} {'Jaccard':8} |", rates(pairs, jaccard_verdict))
        for topic in (
            dict.fromkeys(pair.topic for pair in pairs) if len({pair.topic for pair in pairs}) < MANY_TOPICS else ()
        ):
            print(f"{name:12} {topic:8} |", rates([pair for pair in pairs if pair.topic == topic], verdict))
    if len(sys.argv) > 1:
        print(f"{'condaqa':12} {'all':8} |", rates(condaqa(Path(sys.argv[1])), verdict))
    print_times()


def own_sets() -> dict[str, list[Pair]]:
    """The sets of this repository, by name (docs/decisions/0026 says which were chosen on)."""
    by_rule = ("advice", "findings", "practices", "operations", "platform")
    by_hand = ("natural", "written", "ground", "fresh", "last", "end")
    return {name: made(name) for name in by_rule} | {name: written(name) for name in by_hand}


def rates(pairs: Sequence[Pair], verdict: Verdict) -> Rates:
    """What a verdict makes of pairs, the first text being kept and the second new."""
    same = [verdict(pair.one, pair.other) for pair in pairs if pair.label == "paraphrase"]
    others = [verdict(pair.one, pair.other) for pair in pairs if pair.label != "paraphrase"]
    return Rates(
        len(pairs),
        share(same, "duplicate"),
        share(others, "duplicate"),
        share(others, "conflict"),
        share(same, "conflict"),
    )


def share(verdicts: Sequence[str], wanted: str) -> float:
    """How many of the verdicts are the wanted one; 0 of none."""
    return verdicts.count(wanted) / len(verdicts) if verdicts else 0.0


def verdict(kept: str, new: str) -> str:
    """What the product says, without a model."""
    match check_deduplication(new, [learning(kept)]):
        case Duplicate():
            return "duplicate"
        case Conflict():
            return "conflict"
        case _:
            return "unique"


def learning(text: str) -> FeatureLearning:
    """A learning of any length: paragraphs of CondaQA are longer than memory would keep."""
    made = FeatureLearning.auto_extracted("a text", 1, None)
    return made.model_copy(update={"text": text})


def jaccard_verdict(kept: str, new: str) -> str:
    """The rule of the first design: more than 0.7 of the words."""
    one, other = (set(re.findall(r"\w+", text.lower())) for text in (kept, new))
    return "duplicate" if len(one & other) > 0.7 * len(one | other) else "unique"


def print_times() -> None:
    """Milliseconds of a check against 500 learnings, each text being new to the process."""
    texts = list(
        dict.fromkeys(text for pairs in own_sets().values() for pair in pairs for text in (pair.one, pair.other))
    )
    kept = [learning(text) for text in texts[:500]]
    spent = []
    for text in texts[500:700]:
        began = time.perf_counter()
        check_deduplication(text, kept)
        spent.append(1000 * (time.perf_counter() - began))
    p50, p95 = np.quantile(spent, (0.5, 0.95))
    print(f"check against {len(kept)}: p50 {p50:.1f} ms, p95 {p95:.1f} ms, first {spent[0]:.1f} ms")


if __name__ == "__main__":
    main()
