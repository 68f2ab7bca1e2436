"""`sluice gate`: why the gate decided as it did, and the profiles by which it decides."""

from __future__ import annotations

from typing import TypeVar

import typer

from sluice.cli.agent.answers import print_decision
from sluice.cli.configured import configured
from sluice.cli.learn import rollout
from sluice.cli.learn.calibrate import calibrate
from sluice.cli.learn.defences import defences
from sluice.cli.learn.models import models
from sluice.cli.learn.train import train
from sluice.cli.output import AsJson, console, errors_told, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.errors import NotFound
from sluice.contracts.event import Body
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.gate.decide import explain, needs_model
from sluice.gate.learned.model import GateModel
from sluice.gate.profile import Profile, load_profiles
from sluice.workers.context import Context

SomeBody = TypeVar("SomeBody", bound=Body)

gate = typer.Typer(help="The gate's decisions, profiles and models.", no_args_is_help=True)
gate.add_typer(defences, name="defences")
gate.add_typer(rollout.canary, name="canary")
gate.command("shadow")(rollout.start_shadow)
gate.command("rollback")(rollout.roll_back)
gate.command("report")(rollout.print_report)
gate.command("train")(train)
gate.command("calibrate")(calibrate)
gate.command("models")(models)


@gate.command("explain")
def explain_decision(run_id: str, as_json: AsJson = False) -> None:
    """Recompute a recorded decision, and compare it bit for bit with the record."""
    with session(as_json=as_json) as context:
        decided = _recorded(context, run_id, GateDecided)
        probed = _recorded(context, run_id, CoverageProbed)
        request = _recorded(context, run_id, GateRequested)
        again = explain(request, probed, decided, _profile_of(context, decided), _model_of(context, decided))
        same = again.model_dump_json() == decided.model_dump_json()
        if as_json:
            print_json({"identical": same, "recorded": decided, "recomputed": again})
        else:
            print_decision(again)
            console.print("[green]identical, bit for bit[/]" if same else "[red]differs from the recorded decision[/]")
        if not same:
            raise typer.Exit(1)


@gate.command("profiles")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles: name, version, hash, thresholds."""
    with errors_told(as_json=as_json):
        profiles = load_profiles(configured().gate.profiles_dir)
        found = [
            {"name": p.name, "version": p.version, "config_hash": p.config_hash, **p.thresholds.model_dump()}
            for p in profiles.values()
        ]
        if as_json:
            print_json(found)
        else:
            print_table("profiles", tuple(found[0]) if found else (), [tuple(p.values()) for p in found])


def _recorded(context: Context, run_id: str, kind: type[SomeBody]) -> SomeBody:
    found = context.ledger.events_of_kind(run_id, kind.kind)
    if not found:
        run = context.ledger.run(run_id)
        raise NotFound(f"the {run.kind} run {run_id} ({run.status}) holds no {kind.kind}: there is nothing to explain")
    return found[-1].body_as(kind)


def _profile_of(context: Context, decided: GateDecided) -> Profile:
    """The profile that decided: as it was kept then, or the present one while it is still the same."""
    present = load_profiles(context.settings.gate.profiles_dir).get(decided.profile)
    if present is not None and present.config_hash == decided.config_hash:
        return present
    return Profile.from_bytes(context.blobs.named(decided.config_hash))


def _model_of(context: Context, decided: GateDecided) -> GateModel | None:
    """The learned model that was asked, as it was kept then; None where none was."""
    sha256 = needs_model(decided)
    return None if sha256 is None else GateModel.from_bytes(context.blobs.named(sha256))
