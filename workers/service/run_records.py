"""What is recorded of a run beside its answer: the spans of its steps, and the gate's decision, computed again."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import Any, TypeVar

from sluice.contracts.base import Value
from sluice.contracts.errors import Corrupted, NotFound
from sluice.contracts.event import Body
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.gate.decide import explain, needs_model
from sluice.gate.learned.model import GateModel
from sluice.gate.profile import Profile
from sluice.otel.spans import SpanStore
from sluice.otel.start import RETENTION_HOURS
from sluice.workers.context import Context

SomeBody = TypeVar("SomeBody", bound=Body)
TRACE_ID = re.compile(r"[0-9a-f]{32}")


class RunTrace(Value):
    """The spans of a run as a tree: each with its start and length, and those below it as `children`."""

    started_ns: int
    duration_ms: float
    spans: list[dict[str, Any]]


class Explanation(Value):
    """A recorded decision of the gate, and the same one computed again from its recorded inputs."""

    identical: bool
    recorded: dict[str, Any]
    recomputed: dict[str, Any]


class GateProfile(Value):
    """A profile of the gate: the scores from which a run searches, and crawls too, and when it skips."""

    name: str
    version: int
    config_hash: str
    search: float
    full_loop: float
    skip: float


def read_trace(context: Context, run_or_trace_id: str) -> RunTrace:
    """The spans of a run, or of a trace, from the local span store.

    Raises:
        NotFound: no such run, or no span of it is kept any more.
        Corrupted: the store cannot be read.
    """
    from sluice.otel.waterfall import waterfall_json  # it draws, too, and imports what for

    is_trace = TRACE_ID.fullmatch(run_or_trace_id) is not None
    store = SpanStore.in_dir(context.settings.data_dir)
    try:
        spans = store.of_trace(run_or_trace_id) if is_trace else store.of_run(run_or_trace_id)
    except sqlite3.DatabaseError as error:
        problem = f"the span store {store.path} cannot be read ({error})"
        raise Corrupted(f"{problem}; it holds only traces: remove it to begin anew") from error
    finally:
        store.close()
    if not spans:
        raise NotFound(f"no span of {run_or_trace_id} is kept; they are for {RETENTION_HOURS:g} h")
    return RunTrace(**waterfall_json(spans))


def explain_run(context: Context, run_id: str) -> Explanation:
    """The gate's decision on a run, recomputed; identical where it is the recorded one, bit for bit.

    Raises:
        NotFound: the run has none, or what decided is not kept.
    """
    decided = _recorded(context, run_id, GateDecided)
    probed, request = _recorded(context, run_id, CoverageProbed), _recorded(context, run_id, GateRequested)
    again = explain(request, probed, decided, _profile_of(context, decided), _model_of(context, decided))
    recorded, recomputed = decided.model_dump_json(), again.model_dump_json()
    return Explanation(
        identical=recorded == recomputed, recorded=json.loads(recorded), recomputed=json.loads(recomputed)
    )


def list_profiles(context: Context) -> list[GateProfile]:
    """The profiles of the gate, by name."""
    return [
        GateProfile(name=one.name, version=one.version, config_hash=one.config_hash, **one.thresholds.model_dump())
        for one in context.profiles.values()
    ]


def _recorded(context: Context, run_id: str, kind: type[SomeBody]) -> SomeBody:
    found = context.ledger.events_of_kind(run_id, kind.kind)
    if not found:
        run = context.ledger.run(run_id)
        raise NotFound(f"the {run.kind} run {run_id} ({run.status}) holds no {kind.kind}: there is nothing to explain")
    return found[-1].body_as(kind)


def _profile_of(context: Context, decided: GateDecided) -> Profile:
    """The profile that decided: as it was kept then, or the present one while it is still the same."""
    present = context.profiles.get(decided.profile)
    if present is not None and present.config_hash == decided.config_hash:
        return present
    return Profile.from_bytes(context.blobs.named(decided.config_hash))


def _model_of(context: Context, decided: GateDecided) -> GateModel | None:
    """The learned model that was asked, as it was kept then; None where none was."""
    sha256 = needs_model(decided)
    return None if sha256 is None else GateModel.from_bytes(context.blobs.named(sha256))
