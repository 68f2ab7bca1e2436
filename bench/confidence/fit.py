"""The fit: a logistic regression on each answer's best passage, and a calibration of its log-odds.

Which passage is the best depends on the weights, so fitting and choosing alternate until they agree, as in
multiple-instance learning (Andrews et al., NIPS 2002). Passages are not fitted on their own labels: SQuAD and CoSQA
name one passage a question, NPL twenty, and a probability fitted on these mixes how questions were judged with how
well they are answered. So a passage's confidence is that of an answer which has it alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from bench.confidence.cases import Case
from bench.gate.measures import Floats, logistic
from sluice.trust.confidence import BY_MEANING, NUMBER_SHIFT, Formula, ReadFormula

SHARES = {"covered": 2.0, "near": 0.5, "unanswerable": 0.5, "far": 0.5, "stranger": 0.5}
"""Assumed of the questions that a corpus meets: half are covered, and of the others half miss the topic and half the
answer. A collection that lacks a kind has the other one twice."""
PARTNERS = (("near", "unanswerable"), ("far", "stranger"))
ROUNDS = 6
RIDGE = 1.0


def fit_formula(cases: Sequence[Case], *, by_meaning: bool, start: Formula) -> Formula:
    """The formula that gives the answers of `cases` their likelihood; without `by_meaning` cosines are not read."""
    columns = [0, 1, 2] if by_meaning else [1, 2]
    rows = [_inputs_of(case) for case in cases]
    happened = np.array([case.answered for case in cases])
    importance = weigh(cases)
    weights = np.array([start.bias, start.closeness, start.coverage, -start.chunks])
    for _ in range(ROUNDS):
        best = np.array([own[np.argmax(own @ weights[1:])] for own in rows])
        inputs = best[:, columns]
        middle, spread = inputs.mean(axis=0), inputs.std(axis=0)
        fitted = logistic((inputs - middle) / spread, happened, ridge=RIDGE, importance=importance)
        slopes = fitted[1:] / spread
        weights = np.zeros(4)
        weights[0] = fitted[0] - float(slopes @ middle)
        weights[[1 + column for column in columns]] = slopes
    bias, closeness, coverage, chunks = (round(float(weight), 2) for weight in weights)
    return Formula(bias, closeness, coverage, -chunks)


def fit_by_tokens(cases: Sequence[Case]) -> ReadFormula | None:
    """The formulas of the passages that are read closely; None where none was.

    Each is fitted to its own two kinds of cases, which gives nearly the weights of all three together (Begg and Gray,
    Biometrika 1984).
    """
    if all(np.isnan(case.match) for case in cases):
        return None
    weights = weigh(cases)
    return ReadFormula(_fit_against(cases, weights, ("far", "stranger")), _fit_against(cases, weights, PARTNERS[0]))


def _fit_against(cases: Sequence[Case], weights: Floats, left_out: Sequence[str]) -> Formula:
    kept = [not np.isnan(case.match) and (case.answered or case.kind not in left_out) for case in cases]
    read = [case for case, is_kept in zip(cases, kept, strict=True) if is_kept]
    inputs = np.array([(_closeness(case), *_inputs_of(case)[_best(case)][1:]) for case in read])
    middle, spread = inputs.mean(axis=0), inputs.std(axis=0)
    happened = np.array([case.answered for case in read])
    fitted = logistic((inputs - middle) / spread, happened, ridge=RIDGE, importance=weights[np.array(kept)])
    slopes = fitted[1:] / spread
    closeness, coverage, chunks = (round(float(slope), 2) for slope in slopes)
    return Formula(round(float(fitted[0] - slopes @ middle), 2), closeness, coverage, -chunks)


def _closeness(case: Case) -> float:
    """That of the best passage, which was read: the mean of its cosine and the match of its tokens."""
    return float(case.figures[_best(case), 0] + case.match) / 2


def _best(case: Case) -> int:
    return int(np.argmax(log_odds_of_passages(case, BY_MEANING)))


def _inputs_of(case: Case) -> Floats:
    """For each passage found its cosine, its coverage and the logarithm of the corpus's size."""
    return np.column_stack([case.figures, np.full(len(case.figures), np.log(max(1, case.chunk_count)))])


def log_odds_of_passages(case: Case, formula: Formula) -> Floats:
    """One for each passage found."""
    return np.array([formula.log_odds(cosine, coverage, case.chunk_count) for cosine, coverage in case.figures])


def log_odds_of_answers(
    cases: Sequence[Case], formula: Formula, by_tokens: ReadFormula | None = None, prior: float = 0.0
) -> Floats:
    """One for each case: that of its best passage, by tokens where it was read closely."""
    return np.array(
        [
            log_odds_of_passages(case, formula).max()
            if by_tokens is None or np.isnan(case.match)
            else by_tokens.log_odds(_closeness(case), case.figures[_best(case), 1], case.chunk_count, prior)
            for case in cases
        ]
    ) - np.array([NUMBER_SHIFT * case.misses_number for case in cases])


def fit_isotonic(log_odds: Floats, happened: Floats, importance: Floats) -> tuple[Floats, Floats]:
    """The steps of the nearest function that never falls: log-odds in the middle of each step, and its probability."""
    order = np.argsort(log_odds, kind="stable")
    steps: list[tuple[float, float, float, float]] = []
    for at, hit, weight in zip(log_odds[order], happened[order], importance[order], strict=True):
        steps.append((hit * weight, weight, at, at))
        while len(steps) > 1 and steps[-2][0] * steps[-1][1] >= steps[-1][0] * steps[-2][1]:
            (hits, mass, first, _), (more, added, _, last) = steps[-2:]
            steps[-2:] = [(hits + more, mass + added, first, last)]
    middles = np.array([(first + last) / 2 for _, _, first, last in steps])
    return middles, np.array([hits / mass for hits, mass, _, _ in steps])


def weigh(cases: Sequence[Case], shares: Mapping[str, float] = SHARES) -> Floats:
    """The weight of each case: collections weigh the same, and their kinds have the assumed shares."""
    counts = Counter((case.collection, case.kind) for case in cases)
    share_of: dict[tuple[str, str], float] = {}
    for collection, kind in counts:
        [pair] = [pair for pair in (*PARTNERS, ("covered",)) if kind in pair]
        has_all = all((collection, one) in counts for one in pair)
        share_of[collection, kind] = shares[kind] if has_all else sum(shares[one] for one in pair)
    totals: defaultdict[str, float] = defaultdict(float)
    for (collection, _), share in share_of.items():
        totals[collection] += share
    return np.array(
        [
            1_000 * share_of[case.collection, case.kind] / totals[case.collection] / counts[case.collection, case.kind]
            for case in cases
        ]
    )
