"""The log of answers that a person has judged: a JSON object a line, appended and never changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from sluice.contracts.base import Moment, Value
from sluice.contracts.errors import InvalidInput
from sluice.disk.durable import append_lines
from sluice.evaluation.run_totals import Interval, wilson_interval

MOST_HALLUCINATED = 0.02
"""Largest share of hallucinated answers with which the second phase of a rollout is over."""

Verdict = Literal["grounded", "hallucinated", "unanswered"]
"""All that the answer says is in its passages; something is not; or it does not answer, and says nothing false."""


class JudgedAnswer(Value):
    """One verdict of one person. `chunk_ids` are the passages that the answer cited."""

    at: Moment
    run_id: str
    query: str
    profile: str
    verdict: Verdict
    by: str
    note: Annotated[str, Field(max_length=4_000)] = ""
    chunk_ids: tuple[str, ...] = ()


class LogSummary(Value):
    """The verdicts so far, the latest of each run and person, and the hallucinated share with its 95 % interval."""

    judged: int
    hallucinated: int
    unanswered: int
    share: Interval | None

    @property
    def is_well(self) -> bool:
        """Return whether answers were judged, and at most the share that is allowed was hallucinated."""
        return self.share is not None and self.share.estimate <= MOST_HALLUCINATED


def append(judged: JudgedAnswer, path: Path) -> None:
    """Add a verdict to the log; the file and its folder are made if necessary."""
    append_lines(path, [judged.model_dump(mode="json")])


def read(path: Path) -> list[JudgedAnswer]:
    """Return the verdicts in a log, in order; none if there is no such file. Raises `InvalidInput` naming the line."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    found = []
    for number, line in enumerate(filter(str.strip, lines), start=1):
        try:
            found.append(JudgedAnswer.model_validate_json(line))
        except ValidationError as error:
            raise InvalidInput(f"{path}:{number}", "is no verdict", "remove or mend the line") from error
    return found


def summarise(judged: Iterable[JudgedAnswer]) -> LogSummary:
    """Summarise the log: who judges a run again replaces his verdict."""
    latest = list({(one.run_id, one.by): one for one in judged}.values())
    verdicts: Sequence[Verdict] = [one.verdict for one in latest]
    hallucinated = verdicts.count("hallucinated")
    return LogSummary(
        judged=len(latest),
        hallucinated=hallucinated,
        unanswered=verdicts.count("unanswered"),
        share=wilson_interval(hallucinated, len(latest)),
    )
