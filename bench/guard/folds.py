"""Scores of texts by models that saw neither their attack nor their envelope, and of ordinary texts by their set.

Attacks are parted by their words (InjecAgent, our own templates) or their kind (BIPIA), and a model for a fold has
seen no text with an envelope of that fold either. Folds drawn at random flatter by .3: 30 attacks stand in 17 records.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.guard.dataset import NEUTRAL, Text
from bench.guard.fit import fit, scores

Floats = NDArray[np.float64]
FOLDS = 5


def cross_scores(texts: Sequence[Text]) -> list[Floats]:
    """The scores (chunks,) of every text by a model that was fitted without its fold."""
    of_attack = _folds({(text.name, text.attack) for text in texts if text.is_attack})
    of_envelope = _folds({_envelope(text) for text in texts if text.is_attack or text.name == NEUTRAL})
    of_ordinary = {id(text): number % FOLDS for number, text in enumerate(text for text in texts if not text.is_attack)}

    def fold_of(text: Text) -> int:
        if text.is_attack:
            return of_attack[text.name, text.attack]
        return of_envelope[_envelope(text)] if text.name == NEUTRAL else of_ordinary[id(text)]

    found: dict[int, Floats] = {}
    for fold in range(FOLDS):
        held_out = [text for text in texts if fold_of(text) == fold]
        model = fit(
            [
                text
                for text in texts
                if fold_of(text) != fold and not (_has_envelopes(text) and of_envelope[_envelope(text)] == fold)
            ]
        )
        found |= {id(text): scores(model, text) for text in held_out}
    return [found[id(text)] for text in texts]


def scores_of_sets_left_out(texts: Sequence[Text], is_left_out: Callable[[Text], bool]) -> Iterator[tuple[str, Floats]]:
    """For each set of the texts meant, its chunks' scores by a model that saw nothing of that set.

    For a set with attacks, the score of the chunk with the highest one.
    """
    for name in dict.fromkeys(text.name for text in texts if is_left_out(text)):
        model = fit([text for text in texts if text.name != name])
        found = [scores(model, text) for text in texts if text.name == name]
        is_attack = next(text.is_attack for text in texts if text.name == name)
        yield name, np.array([one.max() for one in found]) if is_attack else np.concatenate(found)


def _has_envelopes(text: Text) -> bool:
    """Whether envelopes are apart from attacks: BIPIA's are three passages' sets, which every fold needs."""
    return text.name == NEUTRAL or (text.is_attack and text.name != "bipia")


def _envelope(text: Text) -> tuple[str, str]:
    return ("injecagent" if text.name == NEUTRAL else text.name, text.envelope)


def _folds(keys: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """A fold for each key, as many of each set in one as in the other."""
    chance = random.Random(1)
    folds: dict[tuple[str, str], int] = {}
    for name in sorted({name for name, _ in keys}):
        of_set = sorted(key for key in keys if key[0] == name)
        chance.shuffle(of_set)
        folds |= {key: number % FOLDS for number, key in enumerate(of_set)}
    return folds
