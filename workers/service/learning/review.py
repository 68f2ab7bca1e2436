"""Gathers the review packet: from the ledger, from reports of `sluice eval`, and from results of `eval redteam`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.contracts.errors import SluiceError
from sluice.evaluation.report import read_report
from sluice.evaluation.retrieval.report import read_retrieval_report
from sluice.evaluation.review import Incident, ReviewPacket, WeightChange, read_benchmarks
from sluice.evaluation.run_totals import Summary
from sluice.gate.profile import Profile
from sluice.trust.redteam import RedTeamReport
from sluice.workers.service.learning.evaluation import evaluate

if TYPE_CHECKING:
    from sluice.workers.context import Context

_RUNS_AT_ONCE = 100
_WEIGHED = ("weights", "thresholds", "scales", "calibration")
"""The parts of a profile whose changes a review looks at."""


def make_packet(
    context: Context, since: datetime, now: datetime, reports: Sequence[Path], redteam: Sequence[Path]
) -> ReviewPacket:
    """The packet of the time from `since` to `now`.

    Raises:
        InvalidInput: a report or a result cannot be read.
    """
    return ReviewPacket(
        since=since,
        made_at=now,
        sluice_version=version("sluice"),
        configurations=tuple(_configurations(context, since)),
        plans=_plans(context, since, now),
        benchmarks=read_benchmarks([(path, read_retrieval_report(path)) for path in reports]),
        incidents=tuple(_incidents(context, since)),
        red_team={channel: counts for path in redteam for channel, counts in _red_team(path)},
    )


def _plans(context: Context, since: datetime, now: datetime) -> dict[str, dict[str, Summary]]:
    found: dict[str, dict[str, Summary]] = {}
    for row in evaluate(context.ledger.outcomes, since, now, by="plan").rows:
        found.setdefault(row.profile, {})[str(row.plan)] = row.summary
    for row in evaluate(context.ledger.outcomes, since, now, by="profile").rows:
        found.setdefault(row.profile, {})["all"] = row.summary
    return found


def _configurations(context: Context, since: datetime) -> Iterator[WeightChange]:
    """The configurations that first decided since then, each with what differs from the one before."""
    last: dict[str, dict[str, str]] = {}
    for profile, config_hash, moment in context.ledger.configurations.all():
        values = _values(context, config_hash)
        before, last[profile] = last.get(profile), values
        if moment >= since.timestamp():
            names = sorted({*values, *(before or {})})
            yield WeightChange(
                profile=profile,
                config_hash=config_hash,
                since=datetime.fromtimestamp(moment, UTC),
                changed={
                    name: (before.get(name, "-"), values.get(name, "-"))
                    for name in names
                    if before is not None and before.get(name) != values.get(name)
                },
            )


def _values(context: Context, config_hash: str) -> dict[str, str]:
    """The weighed parts of a configuration, flat; empty where its profile is not kept any more."""
    sha256, _, model = config_hash.partition("+")
    try:
        profile = Profile.from_bytes(context.blobs.named(sha256)).model_dump(mode="json")
    except SluiceError:
        return {}
    flat = {f"{part}.{name}": str(value) for part in _WEIGHED for name, value in (profile.get(part) or {}).items()}
    return flat | ({"model": model} if model else {})


def _incidents(context: Context, since: datetime) -> Iterator[Incident]:
    """What steered the gate since then, the oldest first."""
    found: list[Incident] = []
    before: str | None = None
    while page := context.ledger.runs(_RUNS_AT_ONCE, before, kind="control"):
        before = page[-1].run_id
        for run in page:
            if run.created_at < since:
                return iter(reversed(found))
            for _, event in reversed(context.ledger.events_after(run.run_id)):
                if event.kind != "RunFinished":
                    said = [(name, value) for name, value in event.body if value not in (None, "", ())]
                    told = ", ".join(f"{name} {_said(value)}" for name, value in said)
                    found.append(Incident(at=event.occurred_at, kind=event.kind, told=told))
    return iter(reversed(found))


def _said(value: Any) -> str:
    return f"{len(value)} of them" if isinstance(value, tuple) else str(value)


def _red_team(path: Path) -> Iterator[tuple[str, dict[str, int]]]:
    for one in read_report(path, RedTeamReport, "sluice eval redteam --json").channels:
        yield one.channel, {"sent": one.sent, "kept out": one.kept_out, "warned": one.warned, "unmarked": one.unmarked}
