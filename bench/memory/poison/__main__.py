"""Fits the weights by which harmful advice is recognised (`memory.sanitise.harm`), and measures them.

    python -m bench.memory.poison [--write] [--fit FILE …] [--check FILE …]

Fitted on the collections to choose on, measured in folds that leave out whole kinds, and on the collections to check,
which these weights never saw. `--write` keeps weights fitted on both. A FILE has harmless texts of others, a line each:
those after `--fit` are fitted on as well, of those after `--check` it is told how many would be withheld.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from bench.memory.poison.texts import Text, by_hand, corpus, documents, framed, learnings
from sluice.memory.sanitise import harm
from sluice.memory.sanitise.harm import Weights, features_of, looks_harmful
from sluice.text.readings import normalise

TARGET = Path(harm.__file__).with_suffix(".json")
STRENGTH, PROBABILITY, FOLDS = 1.0, 0.65, 6
"""Above this probability a sentence is marked: the intercept is lowered until the sum is 0 there."""
LEAST_SEEN = 2
"""Times that a feature must be seen to be weighed."""
DIGITS = 3
LEAST_WEIGHT = 0.02


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", action="store_true")
    arguments.add_argument("--fit", nargs="*", type=Path, default=[])
    arguments.add_argument("--check", nargs="*", type=Path, default=[])
    given = arguments.parse_args()
    others = [text for path in given.fit for text in lines_of(path)]
    chosen = [*by_hand("choose"), *by_hand("more"), *by_hand("commands"), *corpus(), *framed(), *documents(), *others]
    chosen += by_hand("reports") + learnings("advice", "findings", "practices", "operations", "ground")
    checked = [
        *by_hand("check"),
        *by_hand("end"),
        *by_hand("reports_check"),
        *learnings("platform", "fresh", "natural", "written"),
    ]
    print("collection | texts | marked")
    show("choose, kinds left out", chosen, folded(chosen))
    weights = fitted(chosen)
    show("check", checked, [looks_harmful(normalise(one.text).text, weights) for one in checked])
    for path in given.check:
        lines = lines_of(path)
        show("check", lines, [looks_harmful(normalise(one.text).text, weights) for one in lines])
    if given.write:
        write(fitted([*chosen, *checked]))


def lines_of(path: Path) -> list[Text]:
    """Harmless texts of others."""
    return [Text(line, False, path.stem, path.stem, 0.25) for line in path.read_text("utf-8").splitlines() if line]


def fitted(texts: Sequence[Text]) -> Weights:
    """Weights of what is seen at least `LEAST_SEEN` times, in texts that are weighed at all."""
    weighed = [(one, found) for one in texts if (found := features_of(normalise(one.text).text))]
    features = [found for _, found in weighed]
    seen = Counter(name for found in features for name in found)
    kept = [{name: value for name, value in found.items() if seen[name] >= LEAST_SEEN} for found in features]
    vectors = DictVectorizer()
    model = LogisticRegression(C=STRENGTH, max_iter=3000)
    model.fit(vectors.fit_transform(kept), [one.poison for one, _ in weighed], [one.weight for one, _ in weighed])
    named = zip(vectors.feature_names_, model.coef_[0], strict=True)
    heavy = {name: round(float(weight), DIGITS) for name, weight in named if abs(weight) >= LEAST_WEIGHT}
    intercept = float(model.intercept_[0]) - math.log(PROBABILITY / (1 - PROBABILITY))
    return Weights(round(intercept, DIGITS), heavy)


def folded(texts: Sequence[Text]) -> list[bool]:
    """What weights say that saw no text of its kind."""
    kinds = sorted({one.kind for one in texts})
    fold_of = {kind: at % FOLDS for at, kind in enumerate(np.random.default_rng(0).permutation(kinds))}
    by_fold = [fitted([one for one in texts if fold_of[one.kind] != fold]) for fold in range(FOLDS)]
    return [looks_harmful(normalise(one.text).text, by_fold[fold_of[one.kind]]) for one in texts]


def show(name: str, texts: Sequence[Text], marked: Sequence[bool]) -> None:
    """A line for the poison and one for the harmless texts of each collection."""
    kinds = [(one.collection, "poison" if one.poison else "harmless") for one in texts]
    there, found = Counter(kinds), Counter(kind for kind, is_marked in zip(kinds, marked, strict=True) if is_marked)
    for kind, number in there.items():
        print(f"{name}: {', '.join(kind)} | {number} | {found[kind]}", flush=True)


def write(weights: Weights) -> None:
    """The file that the product reads."""
    shown = {"intercept": weights.intercept, "features": weights.features}
    TARGET.write_text(json.dumps(shown, sort_keys=True, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{TARGET}: {len(weights.features)} weights, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
