"""Recorded decisions, computed again by another configuration. Nothing is carried out, and nothing is recorded."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.contracts.errors import InvalidInput
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.contracts.learning.control import NO_CONTROL
from sluice.evaluation.decision_replay import DecisionReplay, ReplayedDecision, cost_by_plan, summarise_replay
from sluice.gate.decide import decide, depends_on_sentences
from sluice.gate.profile import PROFILES_DIR, Profile, choose_profile, load_profile, load_profiles
from sluice.workers.service.learning.evaluation import decided_runs

if TYPE_CHECKING:
    from sluice.workers.context import Context


def replay_decisions(
    context: Context, named: str, since: datetime, *, corpus: str | None = None, profile: str | None = None
) -> DecisionReplay:
    """What the configuration `named` would have decided of the gate runs since then, and at what cost.

    `named` is a profile by its name (its highest version), `name.vN`, or a file of one. Rules, budgets, flags and steps
    back are those of each record; a learned model takes no part, so that profiles alone are compared.

    Raises:
        InvalidInput: no such profile.
        InvalidSetting: its file does not fit.
    """
    new = read_profile(named, context.settings.gate.profiles_dir)
    costs, replayed = (decided_runs(context.ledger.outcomes, since, corpus=corpus, profile=profile) for _ in range(2))
    decisions = (_replayed(context, run.run_id, new) for run in replayed)
    return summarise_replay(decisions, cost_by_plan(costs), f"{new.name}.v{new.version}", new.config_hash)


def read_profile(named: str, profiles_dir: Path | None) -> Profile:
    """A profile by its name, its name and version, or its file.

    Raises:
        InvalidInput: there is none.
        InvalidSetting: its file does not fit.
    """
    files = {path.stem: path for folder in (PROFILES_DIR, profiles_dir) if folder for path in folder.glob("*.toml")}
    if named in files:
        return load_profile(files[named], files)
    path = Path(named)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InvalidInput("profile", f"no file {named}", f"a file, or one of {', '.join(sorted(files))}")
        return load_profile(path, files | {path.stem: path})
    return choose_profile(load_profiles(profiles_dir), named)


def _replayed(context: Context, run_id: str, new: Profile) -> ReplayedDecision | None:
    """The decision of a run by the new profile; None where its record does not hold all that it needs."""
    requested, probed, decided = (
        context.ledger.events_of_kind(run_id, kind.kind) for kind in (GateRequested, CoverageProbed, GateDecided)
    )
    if not (requested and probed and decided):
        return None
    request, before = requested[0].body_as(GateRequested), decided[-1].body_as(GateDecided)
    measured = probed[-1].body_as(CoverageProbed)
    is_measured = all(sentence.similarity is not None for sentence in measured.sentences)
    control = (before.control or NO_CONTROL).model_copy(update={"model": None, "fallback_from": None})
    after = decide(request, measured, new, before.policy, before.budget, before.decided_at, control)
    return ReplayedDecision(
        run_id=run_id,
        query=request.query,
        before=before.plan,
        after=after.plan,
        score_before=before.score,
        score_after=after.score,
        is_uncertain=not is_measured and depends_on_sentences(request, measured, new),
    )
