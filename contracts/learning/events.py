"""Facts about what steers the gate: flags that were changed, what was purged by them, and its own steps back.

Each stands in a run of kind `control`, recorded finished (`workers.service.learning.control`), and no queue consumes
it. The other events are of responses that are judged: a share of those that agents report.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import LaterText, Sha256
from sluice.contracts.event import Body, Queue
from sluice.contracts.learning.control import Defence, DefenceName, FlagAction, FlagName, FlagSource
from sluice.contracts.learning.rollout import ModelVersion, RolloutStatus, Share, VerdictKind

CONTROL_CORPUS = "sluice.control"
"""The corpus that control runs are of. It holds no documents; a key that is limited to corpora sees none of them."""


class FlagChanged(Body):
    """An operator changed a flag. `enabled` is how it stands since then, and `decided_by` by whose word.

    Both are as the process saw it that recorded the change: the environment is each process's own.
    """

    name: FlagName
    action: FlagAction
    was_enabled: bool
    enabled: bool
    decided_by: FlagSource
    operator: str
    note: str = ""


class PendingPurged(Body):
    """Directives that waited when a flag was switched off were cancelled, and do not come back with it.

    `directive` is their kind, `event_ids` names each of them and `run_ids` the runs that lack them: each of these has
    a gap that names the flag.
    """

    flag: FlagName
    stage: Queue
    directive: str
    count: Annotated[int, Field(ge=0)]
    event_ids: tuple[str, ...]
    run_ids: tuple[str, ...]


class DefenceTripped(Body):
    """The gate steps back by itself. `configuration` is the one that was watched, and `falls_back_to` the one before.

    A configuration is the hash of a profile, with the version of a learned model behind a "+" where one decided.
    """

    defence: Defence
    configuration: LaterText = None
    falls_back_to: LaterText = None


class DefenceHealed(Body):
    """A step back of the gate ended: by new data, by another configuration, or by an operator, who is named."""

    name: DefenceName
    profile: str
    by: Literal["data", "configuration", "operator"]
    why: str
    operator: LaterText = None


class RolloutChanged(Body):
    """A learned model got another part in the gate's decisions: in its shadow, for a share of the units, for all, none.

    `verdict` is that of the canary's stage that led to it; None where an operator decided. `share` is the model's
    share of the units, 0 while it is only a shadow. Where neither status nor share changed, the verdict did.
    """

    model_version: ModelVersion
    model_sha256: Sha256
    was_status: RolloutStatus | None = None
    was_share: Share = 0.0
    status: RolloutStatus
    share: Share
    verdict: VerdictKind | None = None
    why: str = ""
    operator: str


Supported = Annotated[float | None, Field(ge=0, le=1)]


class ResponseJudgementDirected(Body, queue="query"):
    """The response of the feedback that caused this is to be judged against the passages of the run's answer."""


class ResponseJudged(Body):
    """How far a response keeps to the passages that it was made from; None where that could not be told.

    `method` says by what each figure was found: `ragas`, or support by sentences. `failures` say what is missing.
    """

    groundedness: Supported = None
    faithfulness: Supported = None
    method: dict[str, str]
    failures: tuple[str, ...] = ()
