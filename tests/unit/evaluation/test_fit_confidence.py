"""The fit of confidence to a model's cosines: it finds the weights by which passages answer."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.contracts.errors import InvalidInput
from sluice.evaluation.retrieval.fit_confidence import LEAST_QUESTIONS, Seen, fit_confidence


def seen(count: int, height: float, scale: float) -> list[Seen]:
    """Questions whose right passage lies nearer than the others, on a scale of cosines of the model's own."""
    random = np.random.default_rng(4)
    questions = []
    for _ in range(count):
        cosines = np.sort(random.normal(0.3, 0.1, 60))[::-1]
        cosines[0] = random.normal(0.65, 0.1)
        shares = np.clip(cosines + random.normal(0.1, 0.15, 60), 0, 1)
        figures = np.column_stack([height + scale * cosines, shares])
        questions.append(Seen(figures, np.arange(60) == 0))
    return questions


def test_absent_answers_are_turned_away_and_present_ones_kept_whatever_the_models_scale() -> None:
    plain, lifted = (fit_confidence(seen(80, *scale), 1_000, 0.2) for scale in ((0.0, 1.0), (0.7, 0.3)))
    for fit in (plain, lifted):
        assert fit.turned_away["covered"] < 0.1
        assert fit.turned_away["topic missing"] > 0.85
    assert lifted.closeness > 2 * plain.closeness > 0


def test_a_question_that_finds_nothing_and_few_questions() -> None:
    nothing = Seen(np.empty((0, 2)), np.empty(0, dtype=bool))
    assert fit_confidence([*seen(40, 0.0, 1.0), nothing], 1_000, 0.2).closeness > 0
    with pytest.raises(InvalidInput, match=str(LEAST_QUESTIONS)):
        fit_confidence(seen(LEAST_QUESTIONS - 1, 0.0, 1.0), 1_000, 0.2)
