"""Fits the weights by which likely harm is told (`memory.sanitise.likely_harm`), and measures them with the rules.

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
from sluice.memory.sanitise import likely_harm
from sluice.memory.sanitise.likely_harm import Weights, features_of, score
from sluice.memory.sanitise.sentences import sentences
from sluice.text.readings import normalise

TARGET = Path(likely_harm.__file__).with_suffix(".json")
STRENGTH, PROBABILITY, FOLDS = 1.0, 0.68, 6
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
    chosen = [*by_hand("choose"), *by_hand("more"), *corpus(), *framed(), *documents(), *others]
    chosen += learnings("advice", "findings", "practices", "operations", "ground")
    checked = [*by_hand("check"), *by_hand("end"), *learnings("platform", "fresh", "natural", "written")]
    print("collection | texts | by the model | by rules | by either")
    show("choose, kinds left out", chosen, folded(chosen))
    weights = fitted(chosen)
    show("check", checked, [harm(one.text, weights) for one in checked])
    for path in given.check:
        lines = lines_of(path)
        show("check", lines, [harm(one.text, weights) for one in lines])
    if given.write:
        write(fitted([*chosen, *checked]))


def lines_of(path: Path) -> list[Text]:
    """Harmless texts of others."""
    return [Text(line, False, path.stem, path.stem, 0.25) for line in path.read_text("utf-8").splitlines() if line]


def harm(text: str, weights: Weights) -> bool:
    """Whether any sentence is likely harm."""
    read = normalise(text).text
    return any(score(read[start:end], weights) > weights.threshold for start, end in sentences(read))


def fitted(texts: Sequence[Text]) -> Weights:
    """Weights of what is seen at least `LEAST_SEEN` times."""
    features = [features_of(normalise(one.text).text) for one in texts]
    seen = Counter(name for found in features for name in found)
    kept = [{name: value for name, value in found.items() if seen[name] >= LEAST_SEEN} for found in features]
    vectors = DictVectorizer()
    model = LogisticRegression(C=STRENGTH, max_iter=3000)
    model.fit(vectors.fit_transform(kept), [one.poison for one in texts], [one.weight for one in texts])
    named = zip(vectors.feature_names_, model.coef_[0], strict=True)
    heavy = {name: round(float(weight), DIGITS) for name, weight in named if abs(weight) >= LEAST_WEIGHT}
    threshold = math.log(PROBABILITY / (1 - PROBABILITY))
    return Weights(round(float(model.intercept_[0]), DIGITS), round(threshold, DIGITS), heavy)


def folded(texts: Sequence[Text]) -> list[bool]:
    """What weights say that saw no text of its kind."""
    kinds = sorted({one.kind for one in texts})
    fold_of = {kind: at % FOLDS for at, kind in enumerate(np.random.default_rng(0).permutation(kinds))}
    by_fold = [fitted([one for one in texts if fold_of[one.kind] != fold]) for fold in range(FOLDS)]
    return [harm(one.text, by_fold[fold_of[one.kind]]) for one in texts]


def show(name: str, texts: Sequence[Text], by_model: Sequence[bool]) -> None:
    """A line for the poison and one for the harmless texts of each collection."""
    for collection in dict.fromkeys(one.collection for one in texts):
        for poison in (True, False):
            rows = [
                (said, by_rules(one.text))
                for one, said in zip(texts, by_model, strict=True)
                if (one.collection, one.poison) == (collection, poison)
            ]
            if rows:
                model, rules, either = (sum(column) for column in zip(*((a, b, a or b) for a, b in rows), strict=True))
                what = "poison" if poison else "harmless"
                print(f"{name}: {collection}, {what} | {len(rows)} | {model} | {rules} | {either}", flush=True)


def by_rules(text: str) -> bool:
    """Whether the rules, memory's own and the guard's, withhold a text."""
    from sluice.memory.embedded.guarded import sanitise_with_trust

    clean = sanitise_with_trust(text)
    return any(rule != likely_harm.RULE for rule in clean.commands) or (clean.blocked and not clean.commands)


def write(weights: Weights) -> None:
    """The file that the product reads."""
    shown = {"intercept": weights.intercept, "threshold": weights.threshold, "features": weights.features}
    TARGET.write_text(json.dumps(shown, sort_keys=True, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{TARGET}: {len(weights.features)} weights, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
