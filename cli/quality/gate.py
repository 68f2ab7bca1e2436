"""`sluice gate`: why the gate decided as it did, its profiles and models, its steps back, and the rollout of models."""

from __future__ import annotations

import getpass
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer

from sluice.cli.agent.answers import print_decision
from sluice.cli.configured import configured
from sluice.cli.operate.dead_letter_options import Note, checked
from sluice.cli.output import AsJson, console, errors_told, marked, print_json, print_table
from sluice.cli.quality.runs import ActiveVersion, rollout_report
from sluice.cli.quality.training import calibrate, train
from sluice.cli.session import session
from sluice.contracts.api import DefenceView
from sluice.contracts.errors import InvalidInput, NotFound
from sluice.contracts.event import Body
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.contracts.learning.control import DefenceName
from sluice.contracts.learning.rollout import Rollout, RolloutRequest
from sluice.evaluation.learned_gate import METADATA, MODEL, list_models
from sluice.gate.decide import explain, needs_model
from sluice.gate.learned.model import GateModel
from sluice.gate.profile import Profile, load_profiles
from sluice.workers.context import Context
from sluice.workers.service.learning.control import lift_defence, list_defences
from sluice.workers.service.learning.rollouts import RolloutDesk

SomeBody = TypeVar("SomeBody", bound=Body)

gate = typer.Typer(help="The gate's decisions, profiles and models.", no_args_is_help=True)
defences = typer.Typer(help="The gate's steps back: which stand, why, and ending one.", no_args_is_help=True)
canary = typer.Typer(
    help="A canary: the model decides for a share of the runs, against a control of equal size.", no_args_is_help=True
)
gate.add_typer(defences, name="defences")
gate.add_typer(canary, name="canary")
gate.command("train")(train)
gate.command("calibrate")(calibrate)
gate.command("report", hidden=True)(rollout_report)  # its name before `sluice eval report`


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


_MODEL_COLUMNS = ("version", "sha256", "trained_at", "sources", "search_below", "full_loop_below", "usable")


@gate.command("models")
def models(as_json: AsJson = False) -> None:
    """List the learned gates: what they were fitted on, their thresholds, and whether they can be used here."""
    with errors_told(as_json=as_json):
        settings = configured()
        found = [_facts(folder, settings.embed) for folder in list_models(settings.data_dir).values()]
        if as_json:
            print_json(found)
        else:
            rows = [tuple(str(one[name]) for name in _MODEL_COLUMNS) for one in found]
            print_table("learned gates", _MODEL_COLUMNS, rows)


def _facts(folder: Path, embed: Any) -> dict[str, Any]:
    from sluice.ingest.embed.embed import fingerprint_of_corpus

    metadata = _metadata(folder)
    told = {"version": folder.name, "folder": str(folder), "trained_at": metadata.get("trained_at", "")}
    sources = [one["name"] for one in metadata.get("collections", [])]
    runs = metadata.get("runs", {}).get("count", 0)
    told["sources"] = ", ".join([*sources, *([f"{runs} runs"] if runs else [])])
    try:
        model = GateModel.from_bytes((folder / MODEL).read_bytes())
    except InvalidInput as error:
        return told | {"sha256": "", "search_below": "", "full_loop_below": "", "usable": f"no: {error}"}
    fits = model.embedder_fingerprint == fingerprint_of_corpus(embed, "default")
    usable = "yes" if fits else f"no: fitted on vectors of {model.embedder_fingerprint}"
    return told | {"sha256": model.sha256[:12], **model.thresholds.model_dump(), "usable": usable}


def _metadata(folder: Path) -> dict[str, Any]:
    path = folder / METADATA
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


Name = Annotated[DefenceName, typer.Argument(help=f"One of {', '.join(get_args(DefenceName))}.")]


@defences.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List the defences: whether each has stepped back, since when, and what its latest window showed."""
    with session(as_json=as_json) as context:
        _print(list_defences(context.ledger), as_json=as_json)


@defences.command("lift")
def lift(
    name: Name,
    profile: Annotated[str | None, typer.Option(help="Of this profile alone.")] = None,
    note: Annotated[str, typer.Option(help="Why; it is recorded.")] = "",
    as_json: AsJson = False,
) -> None:
    """End a step back before it heals. Its windows begin anew: it comes again where two of them are bad."""
    with session(as_json=as_json) as context:
        _print(lift_defence(context, name, getpass.getuser(), profile, note), as_json=as_json)


def _print(found: Sequence[DefenceView], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    columns = ("defence", "profile", "steps back to", "since", "why", "latest window")
    rows = [
        (
            one.name,
            one.profile,
            _step(one),
            f"{one.stands.since:%Y-%m-%d %H:%M}" if one.stands else None,
            one.stands.why if one.stands else None,
            one.windows[-1] if one.windows else None,
        )
        for one in found
    ]
    print_table("defences", columns, rows)


def _step(one: DefenceView) -> str | None:
    if one.stands is None:
        return None
    before = f" {one.falls_back_to[:12]}" if one.falls_back_to else ""
    return f"{one.stands.step.replace('_', ' ')}{before}"


Version = Annotated[str, typer.Argument(metavar="VERSION", help="A model's version, as `sluice gate train` names it.")]


@gate.command("shadow")
def start_shadow(version: Version, note: Note = "", as_json: AsJson = False) -> None:
    """Let a model decide beside the gate: its plans are recorded, and not carried out."""
    _apply(RolloutRequest(action="shadow", version=version, note=note), as_json=as_json)


@canary.command("start")
def start_canary(
    version: Version,
    stages: Annotated[str, typer.Option(help="The shares in percent that the canary goes through.")] = "10,50,100",
    unit: Annotated[str, typer.Option(help="What is drawn: session, or run.")] = "session",
    note: Note = "",
    as_json: AsJson = False,
) -> None:
    """Begin a canary in its first stage; it goes on, or is stopped, by the verdict on each stage."""
    with session(as_json=as_json) as context:
        shares = _parse_stages(stages)
        wanted = checked(RolloutRequest, action="canary", version=version, stages=shares, unit=unit, note=note)
        desk = RolloutDesk(context)
        _show(desk.apply(wanted, getpass.getuser()), desk, as_json=as_json)


@canary.command("status")
def show_status(version: ActiveVersion = None, as_json: AsJson = False) -> None:
    """Show how a model stands: its stage, the verdict on it by now, and every step so far."""
    with session(as_json=as_json) as context:
        desk = RolloutDesk(context)
        _show(desk.find(version), desk, as_json=as_json)


@canary.command("stop")
def stop_canary(version: ActiveVersion = None, note: Note = "", as_json: AsJson = False) -> None:
    """Stop a model: the profile's weights decide again, from the next decision on."""
    _apply(checked(RolloutRequest, action="stop", version=version, note=note), as_json=as_json)


@canary.command("promote")
def promote_canary(version: ActiveVersion = None, note: Note = "", as_json: AsJson = False) -> None:
    """Let a model decide every run, without waiting for the verdict."""
    _apply(checked(RolloutRequest, action="promote", version=version, note=note), as_json=as_json)


@gate.command("rollback")
def roll_back(note: Note = "", as_json: AsJson = False) -> None:
    """End the part of whatever model is active: one command back to the profile's weights."""
    _apply(checked(RolloutRequest, action="rollback", note=note), as_json=as_json)


def _apply(request: RolloutRequest, *, as_json: bool) -> None:
    with session(as_json=as_json) as context:
        desk = RolloutDesk(context)
        _show(desk.apply(request, getpass.getuser()), desk, as_json=as_json)


def _parse_stages(stages: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) / 100 for part in stages.split(","))
    except ValueError as error:
        raise InvalidInput("stages", f"{stages!r} are not percentages", "for instance 10,50,100") from error


def _show(rollout: Rollout, desk: RolloutDesk, *, as_json: bool) -> None:
    if as_json:
        print_json(rollout)
        return
    if obstacle := desk.obstacle(rollout):
        console.print(f"[red]{marked(obstacle)}[/]")
    console.print(f"model {rollout.model_version} is {marked(rollout.status)} at {rollout.share:.0%} of the units")
    for share, runs in zip(rollout.stages, rollout.expected_runs, strict=False):
        console.print(f"  {share:.0%} takes at most {runs:,} gate runs", highlight=False)
    rows = [(x.at, x.status, f"{x.share:.0%}", x.verdict or "-", x.operator, x.why) for x in rollout.history]
    print_table("steps", ("at", "status", "share", "verdict", "by", "why"), rows)
