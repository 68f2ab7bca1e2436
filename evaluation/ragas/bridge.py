"""The RFC's RAGAS bridge: figures of retrieval, and whether answers keep to what was retrieved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sluice.evaluation.ragas.environment import RagasScore
from sluice.evaluation.ragas.metrics import AT, AnsweredQuestion, RagasMetrics, mean_of
from sluice.evaluation.ragas.support import Embed, find_support, groundedness
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.measures import compute_measures

Judge = Callable[[Sequence[AnsweredQuestion]], Sequence[RagasScore]]
"""Judges each answer, in order: `evaluation.ragas.environment.judge_answers` with its settings."""

BY_RAGAS = "ragas"
BY_SUPPORT = "support by sentences"


class RagasBridge:
    """Evaluates questions with known answers; `embed` and `judge` are asked only for answers.

    Without a judge faithfulness stays unknown, and groundedness is support by sentences.
    """

    def __init__(self, embed: Embed, judge: Judge | None = None, *, enabled: bool) -> None:
        self._embed = embed
        self._judge = judge
        self._enabled = enabled

    def evaluate(
        self,
        cases: Sequence[Case],
        rankings: Mapping[str, Sequence[str]],
        answers: Sequence[AnsweredQuestion] = (),
    ) -> RagasMetrics | None:
        """The figures; None while the flag `ragas` (`FEATURE_RAGAS_EVAL`) is off.

        `rankings` has the names that each case found, best first, by the case's id.

        Raises:
            InvalidSetting: ir-measures is not installed.
            SluiceError: as the judge.
        """
        if not self._enabled:
            return None
        values = compute_measures(cases, rankings)
        means = {name: sum(of_cases.values()) / len(cases) for name, of_cases in values.items()}
        scores = self.score(answers)
        known = {
            "groundedness": [score.groundedness for score in scores],
            "faithfulness": [score.faithfulness for score in scores],
        }
        return RagasMetrics(
            recall_at_k=tuple(means[f"recall@{k}"] for k in AT),
            mrr=means["MRR@10"],
            groundedness=mean_of(known["groundedness"]),
            faithfulness=mean_of(known["faithfulness"]),
            judged={name: sum(value is not None for value in of) for name, of in known.items()},
            method=self.method,
        )

    @property
    def method(self) -> dict[str, str]:
        """By what each figure is found; faithfulness needs a judge."""
        return (
            {"groundedness": BY_SUPPORT}
            if self._judge is None
            else {"groundedness": BY_RAGAS, "faithfulness": BY_RAGAS}
        )

    def score(self, answers: Sequence[AnsweredQuestion]) -> Sequence[RagasScore]:
        """Each answer judged: by the judge, or by support where there is none."""
        if self._judge is not None and answers:
            return self._judge(answers)
        return [self._by_support(answer) for answer in answers]

    def _by_support(self, answer: AnsweredQuestion) -> RagasScore:
        found = groundedness(find_support(answer.response, answer.passages, self._embed))
        failures = () if found is not None else ("groundedness: the answer states nothing, or cites nothing",)
        return RagasScore(groundedness=found, failures=failures)
