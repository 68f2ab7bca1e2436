"""Dead letters for operators, and the requests about them. HTTP and the command line use the same values."""

from __future__ import annotations

import base64
from typing import Annotated, Literal, Self

from pydantic import Field

from sluice.contracts.base import CorpusName, LaterText, Moment, Value, is_none
from sluice.contracts.event import DeadLetterReason, Queue

DeadLetterStatus = Literal["parked", "replayed", "purged"]
ReplayStatus = Literal["running", "paused", "done", "aborted"]
SkipReason = Literal[
    "not_parked", "not_an_event", "unreadable", "run_gone", "run_cancelled", "replayed_too_often", "budget_exhausted"
]
"""Reason for not replaying a letter. `run_cancelled` and `replayed_too_often` can be forced."""

MOST_AT_ONCE = 1_000
"""The most letters or groups in one response."""
MOST_PER_SECOND = 250.0
"""The fastest bulk replay: the rate that the reconciler can sustain besides its other work."""

MOST_FAILED_AGAIN = 0.2
"""Share of the ended letters that were parked again, above which a replay aborts itself."""
ENOUGH_TO_JUDGE = 20
"""Letters that must have ended before a replay is judged."""
MOST_DRIFT = 0.05
"""Share by which the letters up to a mark may differ from their count before an action on them is refused."""
HOURS_SHOWN = 24
"""Hours of a group of letters that are counted one by one."""

Note = Annotated[str, Field(max_length=1_000)]


class CorporaFilter(Value):
    """A filter that can be narrowed to the corpora that a caller may see."""

    corpora: tuple[CorpusName, ...] | None = None

    def within(self, allowed: frozenset[str] | None) -> Self:
        """Return the filter limited to these corpora; None: all. A limit excludes items without a corpus."""
        if allowed is None:
            return self
        chosen = allowed if self.corpora is None else allowed & set(self.corpora)
        return self.model_copy(update={"corpora": tuple(sorted(chosen))})


class Part(Value):
    """The part of a list that is asked for: `limit` items after `cursor`."""

    limit: int
    cursor: str | None = None

    def part(self, limit: int, cursor: str | None) -> Self:
        """Return the same filters for another part."""
        return self.model_copy(update={"limit": limit, "cursor": cursor})


class DeadLetterFilter(CorporaFilter):
    """A filter of dead letters; all given conditions must hold. `since` and `until` apply to `last_seen`."""

    stage: Queue | None = None
    reason: DeadLetterReason | None = None
    kind: str | None = None
    fingerprint: str | None = None
    run_id: str | None = None
    replay_id: LaterText = None
    up_to: LaterText = None
    """The mark of a count: its moment and its highest id. Letters that are younger, or failed again, are left out."""
    since: Moment | None = None
    until: Moment | None = None
    status: DeadLetterStatus | Literal["any"] = "parked"


class DeadLetterPage(DeadLetterFilter, Part):
    """A filter, and a part of its results, the latest first."""

    limit: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] = 100


class DeadLetterSummary(Value):
    """A dead letter in a list. `stage` is the queue that failed; `position` continues the list after it."""

    id: str
    position: str
    event_id: str | None
    cause_id: str | None
    run_id: str | None
    corpus: str | None
    stage: str
    kind: str | None
    schema_version: int | None
    code_version: str
    idempotency_key: str | None
    reason: DeadLetterReason
    exception_type: str
    message: str
    fingerprint: str
    attempts: int
    deliveries: int
    first_seen: Moment
    last_seen: Moment
    worker: str | None
    traceparent: str | None
    sha256: str
    replay_count: int
    status: DeadLetterStatus
    replayed_as: str | None
    replay_id: str | None
    operator: str | None
    note: str | None


class Payload(Value):
    """Received bytes: as text if they are UTF-8, else in base64."""

    encoding: Literal["utf-8", "base64"]
    text: str

    @classmethod
    def of(cls, raw: bytes) -> Payload:
        """Return the payload that holds these bytes."""
        try:
            return cls(encoding="utf-8", text=raw.decode())
        except UnicodeDecodeError:
            return cls(encoding="base64", text=base64.b64encode(raw).decode())

    @property
    def raw(self) -> bytes:
        """Return the bytes."""
        return self.text.encode() if self.encoding == "utf-8" else base64.b64decode(self.text)


class PastPayload(Value):
    """A payload that an operator replaced at `at`."""

    at: Moment
    operator: str
    sha256: str
    payload: Payload


class OperatorAction(Value):
    """An operator's action on a dead letter or a bulk replay."""

    at: Moment
    operator: str
    action: str
    note: str


class LetterAttempt(Value):
    """A claim on a letter's event: `ready_at` is since when it waited, `ending` how it ended (None: under way)."""

    epoch: int
    worker: str
    ready_at: Moment
    claimed_at: Moment
    ended_at: Moment | None
    ending: str | None
    why: str | None


class PassedEvent(Value):
    """The latest event of a letter's kind and corpus that was handled, to compare the letter's payload with."""

    event_id: str
    run_id: str
    payload: Payload


class DeadLetterView(DeadLetterSummary):
    """A complete dead letter."""

    stack: str
    payload: Payload
    payload_history: tuple[PastPayload, ...] = ()
    actions: tuple[OperatorAction, ...] = ()
    tries: tuple[LetterAttempt, ...] = ()
    """The first and the last claims on its event, in order."""
    passed: Annotated[PassedEvent | None, Field(exclude_if=is_none)] = None


class DeadLetterGroup(Value):
    """Letters with one fingerprint: one failure, many times. `example_id` and `message` are the newest letter's."""

    fingerprint: str
    position: str
    count: int
    stage: str
    exception_type: str
    reasons: tuple[DeadLetterReason, ...]
    kinds: tuple[str, ...]
    first_seen: Moment
    last_seen: Moment
    example_id: str
    message: str
    code_versions: tuple[str, ...] = ()
    """The releases of Sluice that parked them."""
    by_hour: tuple[int, ...] = ()
    """How many were last seen in each of the latest 24 hours, the oldest first."""


class Replayed(Value):
    """A dead letter was replayed as `event_id`: a new id if its payload was edited."""

    dead_letter_id: str
    event_id: str
    run_id: str


class ReplayRequest(Value):
    """`POST /v1/replays`: replay the matching letters at `per_second`; with `dry_run`, only plan it."""

    filter: DeadLetterFilter
    per_second: Annotated[float, Field(gt=0, le=MOST_PER_SECOND)] = 10.0
    force: bool = False
    note: Note = ""
    dry_run: bool = False
    confirm: Annotated[int | None, Field(ge=0, exclude_if=is_none)] = None
    """The count that a dry run gave. It must still be right: with the dry run's `up_to` in the filter within 5 %, else
    to the letter."""


class PlannedGroup(Value):
    """The planned bulk replay of the letters with one fingerprint."""

    fingerprint: str
    replayable: int
    skips: dict[SkipReason, int]


class ReplayPlan(Value):
    """The response to a dry run. Budgets are only checked when a letter's turn comes. `up_to` marks what it counted."""

    total: int
    up_to: str
    replayable: int
    skips: dict[SkipReason, int]
    groups: tuple[PlannedGroup, ...]


class ReplayView(Value):
    """A bulk replay and its progress.

    Of `total` letters, `replayed` were replayed and `skips` were left out, by reason. Of those replayed, and not taken
    over by a later replay since, `open` are under way, `succeeded` were handled, `parked_again` failed and `cancelled`
    ended with their run.
    """

    id: str
    status: ReplayStatus
    why: str | None
    filter: DeadLetterFilter
    per_second: float
    force: bool
    operator: str
    note: str
    created_at: Moment
    updated_at: Moment
    total: int
    replayed: int
    skips: dict[SkipReason, int]
    open: int
    succeeded: int
    parked_again: int
    cancelled: int
    abort_above: float = MOST_FAILED_AGAIN
    """Share of the ended letters (`succeeded` and `parked_again`) parked again, above which it aborts itself."""
    judged_from: int = ENOUGH_TO_JUDGE
    """Letters that must have ended before it is judged."""


class PurgeRequest(Value):
    """`POST /v1/dead-letters/purge`: `confirm` must be the count that the `dry_run` returned; with its `up_to` in the
    filter, within 5 %."""

    filter: DeadLetterFilter
    note: Note = ""
    dry_run: bool = False
    confirm: Annotated[int, Field(ge=0)] | None = None


class Purged(Value):
    """Number of letters that the filter matched, and number that were emptied. `up_to` marks what a dry run counted."""

    matching: int
    purged: int
    up_to: LaterText = None
