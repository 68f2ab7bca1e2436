"""Prints what the guard finds and what it troubles: `python -m bench.guard DATA_DIR [CACHE]`.

Some ten minutes with an empty cache, three with a full one. `DATA_DIR` holds the public sets, which are not part of
this repository; sets that are not there, and documentation that is not installed, are left out.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from bench.guard.attacked import QUESTIONS_OUT_OF_CONTEXT
from bench.guard.dataset import Text, load_texts
from bench.guard.folds import Floats, cross_scores, scores_of_sets_left_out
from bench.guard.train import CACHE, MOST_CHUNKS, PER_TEMPLATE, THRESHOLD

_THRESHOLDS = (0.5, 0.6, THRESHOLD, 0.7)


def main() -> None:
    texts = load_texts(Path(sys.argv[1]), Path(*sys.argv[2:3] or [CACHE]), MOST_CHUNKS, PER_TEMPLATE)
    found = cross_scores(texts)
    ordinary = {name: _chunks(texts, found, name) for name in _names(texts, attacks=False)}
    strictest = max(float(np.quantile(scores, 0.95)) for scores, _ in ordinary.values())
    print(f"## Ordinary texts: share of chunks warned of (threshold {THRESHOLD}; folds by document)\n")
    _row("set", "chunks", "rules", "model", "either")
    for name, (scores, by_rule) in ordinary.items():
        model = scores > THRESHOLD
        _row(name, len(scores), _share(by_rule), _share(model), _share(by_rule | model))
    print("\n## Attacks: share of texts found (folds by attack, kind and envelope)\n")
    print(f"At 5 % on each set: {strictest:.3f}\n")
    _row("set", "kind", "texts", "rules", f"model {THRESHOLD}", "model at 5 % each", "either")
    for name in _names(texts, attacks=True):
        _attacks(
            name, [(text, scores) for text, scores in zip(texts, found, strict=True) if text.name == name], strictest
        )
    for title, attacks in (("Ordinary sets", False), ("Sets of attacks", True)):
        print(f"\n## {title} that the model was fitted without\n")
        _row("set", *(f"above {threshold}" for threshold in _THRESHOLDS))
        for name, scores in scores_of_sets_left_out(texts, lambda text, attacks=attacks: text.is_attack == attacks):  # type: ignore[misc]
            _row(name, *(_share(scores > threshold) for threshold in _THRESHOLDS))


def _attacks(name: str, found: Sequence[tuple[Text, Floats]], strictest: float) -> None:
    kinds: dict[str, list[tuple[Text, Floats]]] = defaultdict(list)
    for text, scores in found:
        kinds[text.kind].append((text, scores))
        kinds["all"].append((text, scores))
        if name == "bipia" and text.kind not in QUESTIONS_OUT_OF_CONTEXT:
            kinds["all but questions out of context"].append((text, scores))
    for kind, members in sorted(kinds.items()):
        rules = np.array([text.by_rule.any() for text, _ in members])
        best = np.array([scores.max() for _, scores in members])
        either = rules | (best > THRESHOLD)
        _row(
            name, kind, len(members), _share(rules), _share(best > THRESHOLD), _share(best > strictest), _share(either)
        )


def _chunks(texts: Sequence[Text], found: Sequence[Floats], name: str) -> tuple[Floats, np.ndarray]:
    chosen = [(text, scores) for text, scores in zip(texts, found, strict=True) if text.name == name]
    return np.concatenate([scores for _, scores in chosen]), np.concatenate([text.by_rule for text, _ in chosen])


def _names(texts: Iterable[Text], *, attacks: bool) -> list[str]:
    return list(dict.fromkeys(text.name for text in texts if text.is_attack == attacks))


def _share(found: np.ndarray) -> str:
    return f"{found.mean():.3f}"


def _row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
