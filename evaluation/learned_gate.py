"""A learned gate: its files, how well it separates covered questions from others, and the cost of its errors.

    model.json      the model (`gate.learned.model`)
    metadata.json   its training data and settings, with hashes, licences and measures
    unseen.json     its results on cases that its fit did not see, for thresholds at other costs
    report.md       the measures, to read

A model's folder is named by its version. Models of the package are in `evaluation/rag_gate`, those of an instance in
the same folder of its data directory; for the same version the instance's own takes precedence.

A gate's mistake has two sides, so the measures are of the class "not answered": going outside is the positive answer.
Intervals are of a bootstrap over whole questions, whose cases are alike (Efron and Tibshirani, 1993, chapter 8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.errors import Conflict, NotFound
from sluice.disk.durable import replace_file

if TYPE_CHECKING:
    from sluice.disk.object_store import ObjectStore

MODELS_DIR = Path(__file__).parent / "rag_gate"
MODEL, METADATA, UNSEEN, REPORT = "model.json", "metadata.json", "unseen.json", "report.md"
_SHARED = "rag_gate"


def own_models_dir(data_dir: Path) -> Path:
    """Return the models folder of an instance."""
    return data_dir / "evaluation" / "rag_gate"


def list_models(data_dir: Path) -> Mapping[str, Path]:
    """Return the folder of each model, by version, in order."""
    found = {
        path.parent.name: path.parent
        for folder in (MODELS_DIR, own_models_dir(data_dir))
        for path in sorted(folder.glob(f"*/{MODEL}"))
    }
    return dict(sorted(found.items()))


def find_model(version: str, data_dir: Path) -> Path:
    """Return the folder of that version's model. Raises `NotFound`, which lists the models, if there is none."""
    known = list_models(data_dir)
    if version not in known:
        raise NotFound(f"no model {version!r}; there are {', '.join(known) or 'none: see sluice gate train'}")
    return known[version]


def share_models(data_dir: Path, store: ObjectStore | None) -> None:
    """Bring the instance's own models to the object store that its machines share, and those of the others here. A
    version is written once, so nothing is replaced; its model comes last, without which it does not count."""
    if store is None:
        return
    folder, there = own_models_dir(data_dir), store.sizes(_SHARED)
    here = {f"{_SHARED}/{path.relative_to(folder).as_posix()}": path for path in folder.glob("*/*") if path.is_file()}
    for name in sorted(here.keys() - there, key=_model_last):
        store.create(name, here[name].read_bytes())
    for name in sorted(there.keys() - here, key=_model_last):
        path = folder / Path(name).parent.name / Path(name).name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, store.read(name))


def _model_last(name: str) -> tuple[bool, str]:
    return name.endswith(f"/{MODEL}"), name


def write_model(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a model's files into a new `folder`, the model last: without it the folder does not count as a model's.

    Raises `Conflict` if the folder already has a model.
    """
    if (folder / MODEL).exists():
        raise Conflict(f"{folder} holds a model: a version is written once; name another with --version")
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(files, key=lambda name: name == MODEL):
        replace_file(folder / name, files[name])


class Said(NamedTuple):
    """Cases of one probability: the weight of those that the corpus answered, and of the others."""

    probability: float
    covered: float
    missing: float


@dataclass(frozen=True, slots=True)
class Confusion:
    """Shares of all questions, by coverage and by decision. They sum to 1."""

    covered_retrieve: float
    covered_search: float
    covered_full_loop: float
    missing_retrieve: float
    missing_search: float
    missing_full_loop: float

    def cost(self, outside: float, full_loop: float, miss: float) -> float:
        """Return the mean cost of a question: of going outside if the corpus answers, and of staying if it does not."""
        return self.covered_search * outside + self.covered_full_loop * full_loop + self.missing_retrieve * miss


def count_said(cases: Iterable[tuple[float, bool, float]], decimals: int = 3) -> list[Said]:
    """Sum up cases (probability, whether covered, weight) by their rounded probability, lowest first."""
    sums: dict[float, list[float]] = {}
    for probability, is_covered, weight in cases:
        sums.setdefault(round(probability, decimals), [0.0, 0.0])[not is_covered] += weight
    return [Said(probability, *sums[probability]) for probability in sorted(sums)]


def confuse(said: Sequence[Said], search_below: float, full_loop_below: float) -> Confusion:
    """Return the shares at these thresholds, ignoring age; all of them 0 without cases."""
    total = sum(one.covered + one.missing for one in said) or 1.0
    full, search, stay = (
        [one for one in said if one.probability < full_loop_below],
        [one for one in said if full_loop_below <= one.probability < search_below],
        [one for one in said if one.probability >= search_below],
    )
    covered = [sum(one.covered for one in part) / total for part in (stay, search, full)]
    missing = [sum(one.missing for one in part) / total for part in (stay, search, full)]
    return Confusion(*covered, *missing)


Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
DRAWS = 1_000
BINS = 10


class Interval(NamedTuple):
    """A figure, and the range of 95 of 100 draws."""

    value: float
    low: float
    high: float


def f1(is_missing: Flags, goes: Flags, weights: Floats) -> float:
    """Return the weighted F1 (harmonic mean of precision and recall) of going outside; 0 if nothing goes or should."""
    hits = weights[is_missing & goes].sum()
    return float(2 * hits / max(1e-12, weights[goes].sum() + weights[is_missing].sum()))


def area(is_missing: Flags, scores: Floats, weights: Floats) -> float:
    """Return the chance that a missing answer scores above a present one, by weight (AUC); a tie counts half."""
    _, place = np.unique(scores, return_inverse=True)
    missing, there = np.bincount(place, weights * is_missing), np.bincount(place, weights * ~is_missing)
    below = np.cumsum(there) - there
    return float((missing * (below + there / 2)).sum() / max(1e-12, missing.sum() * there.sum()))


def calibration_error(probabilities: Floats, happened: Flags, weights: Floats, bins: int = BINS) -> float:
    """Return the expected calibration error: mean distance of probability and frequency, over bins of equal weight."""
    order = np.argsort(probabilities, kind="stable")
    middles = np.cumsum(weights[order]) - weights[order] / 2
    number = np.minimum((middles / weights.sum() * bins).astype(int), bins - 1)
    gaps = np.bincount(number, (weights * (probabilities - happened))[order], bins)
    return float(np.abs(gaps).sum() / weights.sum())


class Resamples:
    """Draws of whole questions with replacement, shared by all measures of the same cases."""

    def __init__(self, questions: NDArray[np.int64], draws: int = DRAWS, seed: int = 0) -> None:
        """Draw the resamples. `questions` has a number for each case; cases of one number are drawn together."""
        _, self._question = np.unique(questions, return_inverse=True)
        count, random = int(self._question.max()) + 1, np.random.default_rng(seed)
        self._counts = [np.bincount(random.integers(0, count, count), minlength=count) for _ in range(draws)]

    def f1_difference(self, is_missing: Flags, one: Flags, other: Flags, weights: Floats) -> Interval:
        """Return F1 of `one` less that of `other`, paired: each draw measures both on the same questions."""
        values = [f1(is_missing, one, drawn) - f1(is_missing, other, drawn) for drawn in self._weights(weights)]
        return _interval(f1(is_missing, one, weights) - f1(is_missing, other, weights), values)

    def calibration_error(self, probabilities: Floats, happened: Flags, weights: Floats) -> Interval:
        """Return the calibration error and its spread over the draws, which lies above it: resampling adds noise."""
        values = [calibration_error(probabilities, happened, drawn) for drawn in self._weights(weights)]
        return _interval(calibration_error(probabilities, happened, weights), values)

    def perfect_calibration_error(self, probabilities: Floats, weights: Floats, seed: int = 1) -> float:
        """Return the mean calibration error that exactly right probabilities would have on the same number of cases."""
        random = np.random.default_rng(seed)
        draws = (random.random(len(probabilities)) < probabilities for _ in self._counts)
        return float(np.mean([calibration_error(probabilities, drawn, weights) for drawn in draws]))

    def _weights(self, weights: Floats) -> list[Floats]:
        return [weights * counts[self._question] for counts in self._counts]


def _interval(value: float, drawn: list[float]) -> Interval:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(value, float(low), float(high))
