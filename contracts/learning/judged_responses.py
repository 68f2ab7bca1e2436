"""Events of a response that is judged: a share of those that agents report is looked at, to see what they keep to."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from sluice.contracts.event import Body, Queue

Share = Annotated[float | None, Field(ge=0, le=1)]


class ResponseJudgementDirected(Body):
    """The response of the feedback that caused this is to be judged against the passages of the run's answer."""

    queue: ClassVar[Queue | None] = "query"


class ResponseJudged(Body):
    """How far a response keeps to the passages that it was made from; None where that could not be told.

    `method` says by what each figure was found: `ragas`, or support by sentences. `failures` say what is missing.
    """

    groundedness: Share = None
    faithfulness: Share = None
    method: dict[str, str]
    failures: tuple[str, ...] = ()
