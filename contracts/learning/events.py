"""Events about the controls of the gate: changed flags, the directives they purged, and the gate's fallbacks.

Each belongs to a run of kind `control`, recorded as finished (`workers.service.learning.control`), and no queue
consumes it. The other events concern the judging of responses: a share of those that agents report.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import LaterText, Sha256
from sluice.contracts.event import Body, Queue
from sluice.contracts.learning import control

CONTROL_CORPUS = "sluice.control"
"""The corpus of control runs. It holds no documents; a key that is limited to corpora sees none of the runs."""


class FlagChanged(Body):
    """An operator changed a flag. `enabled` is the new state, `share` that of the runs that have it (None: all),
    `decided_by` the source that decides it, all as seen by the process that recorded the change: each process has its
    own environment."""

    name: control.FlagName
    action: control.FlagAction
    was_enabled: bool
    enabled: bool
    decided_by: control.FlagSource
    share: control.FlagShare = None
    operator: str
    note: str = ""


class PendingPurged(Body):
    """Directives that waited when a flag was switched off were cancelled, and do not come back with it. `directive` is
    their kind, `event_ids` are their ids; each of the affected `run_ids` has a gap that names the flag."""

    flag: control.FlagName
    stage: Queue
    directive: str
    count: Annotated[int, Field(ge=0)]
    event_ids: tuple[str, ...]
    run_ids: tuple[str, ...]


class DefenceTripped(Body):
    """The gate fell back by itself, from `configuration` to the previous one, `falls_back_to`: each the hash of a
    profile, with "+" and the version of a learned model where a model decided."""

    defence: control.Defence
    configuration: LaterText = None
    falls_back_to: LaterText = None


class DefenceHealed(Body):
    """A fallback of the gate ended: by new data, by another configuration, or by the named operator."""

    name: control.DefenceName
    profile: str
    corpus: LaterText = None
    owner: LaterText = None
    by: Literal["data", "configuration", "operator"]
    why: str
    operator: LaterText = None


class DefencePinned(Body):
    """An operator holds a defence on or off for a profile and a corpus ("*": for all), until it is lifted."""

    name: control.DefenceName
    profile: str
    corpus: str
    pin: control.Pin
    operator: str
    note: str = ""


class RolloutChanged(Body):
    """A learned model's part in the gate's decisions changed: shadow, a share of the units, all of them, or none.

    `verdict` is that of the canary's stage that caused it; None if an operator decided. `share` is the model's share of
    the units, 0 while it is only a shadow. If neither status nor share changed, the verdict did.
    """

    model_version: control.ModelVersion
    model_sha256: Sha256
    was_status: control.RolloutStatus | None = None
    was_share: control.Share = 0.0
    status: control.RolloutStatus
    share: control.Share
    verdict: control.VerdictKind | None = None
    why: str = ""
    operator: str


class WebhookDisabled(Body):
    """Nothing more is sent to a webhook until somebody enables it: its receiver failed too often or for too long, or
    said that it is gone (410)."""

    webhook_id: str
    why: str
    failures: Annotated[int, Field(ge=0)]


Supported = Annotated[float | None, Field(ge=0, le=1)]


class ResponseJudgementDirected(Body, queue="query"):
    """The response in the feedback that caused this is to be judged against the passages of the run's answer."""


class ResponseJudged(Body):
    """The support of a response by its passages; None where that could not be determined. `method` names the method of
    each figure: `ragas`, or support by sentences. `failures` explain missing figures."""

    groundedness: Supported = None
    faithfulness: Supported = None
    method: dict[str, str]
    failures: tuple[str, ...] = ()
