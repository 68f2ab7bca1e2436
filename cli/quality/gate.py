"""`sluice gate`: the gate's decisions explained, its profiles and models, its defences, and the rollout of models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from sluice.cli.command import DefenceName, Shown, chosen, needed, on_disk, over_http, print_rows, table
from sluice.cli.connection import given, wrong
from sluice.cli.output import console, marked, say
from sluice_client.errors import NotFound

if TYPE_CHECKING:
    from sluice.workers.context import Context
    from sluice_client import SluiceClient
    from sluice_client.models import Decision, DefenceView, Rollout

ACTIVE = frozenset({"shadow", "canary", "promoted"})
"""The states in which a model takes part in decisions."""


@over_http
def explain_decision(client: SluiceClient, run_id: str) -> Shown:
    """Recompute a run's recorded decisions, and compare them bit for bit with the record."""
    found = client.explanation(run_id)

    def draw() -> None:
        from sluice.cli.agent.answers import print_decision

        for one in (found.before, found):
            if one is not None:
                print_decision(cast("Decision", one.recomputed))
        told = "[green]identical, bit for bit[/]" if found.identical else "[red]differs from the recorded decision[/]"
        console.print(told)

    return Shown(found, draw, exit_code=int(not found.identical))


@over_http
def list_profiles(client: SluiceClient) -> Shown:
    """List the profiles: name, version, hash, thresholds."""
    return table("profiles", client.profiles(), "name version config_hash search full_loop skip former=is_former")


@on_disk
def models(context: Context) -> Shown:
    """List the learned gates: their training sources and thresholds, and whether they can be used here."""
    from sluice.evaluation.learned_gate import list_models, share_models

    settings = context.settings
    share_models(settings.data_dir, context.object_store)
    found = [_facts(folder, settings.embed) for folder in list_models(settings.data_dir).values()]
    columns = "version sha256 trained_at sources search_below full_loop_below usable"
    return table("learned gates", found, columns)


def _facts(folder: Path, embed: Any) -> dict[str, Any]:
    from sluice.contracts.errors import InvalidInput
    from sluice.evaluation.learned_gate import METADATA, MODEL
    from sluice.gate.learned.model import GateModel
    from sluice.ingest.embed.embed import fingerprint_of_corpus

    path = folder / METADATA
    metadata: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
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


@over_http
def defences(
    client: SluiceClient,
    name: DefenceName | None = None,
    lift: bool = False,
    pin: Literal["on", "off"] | None = None,
    profile: str | None = None,
    corpus: str | None = None,
    note: str = "",
) -> Shown:
    """Show the gate's defences: the active ones, since when and why, and their latest windows; lift or hold one."""
    if lift:
        found = client.lift_defence(needed("NAME", name, "lift"), profile=profile, corpus=corpus, note=note).data
    elif pin:
        found = client.pin_defence(needed("NAME", name, "pin"), pin, profile=profile, corpus=corpus, note=note).data
    else:
        named = {"name": name, "profile": profile, "corpus": corpus}
        found = [
            one for one in client.defences() if all(value in (None, getattr(one, key)) for key, value in named.items())
        ]
    since = ("since", lambda one: one.stands and one.stands.since)
    why = ("why", lambda one: one.stands and one.stands.why)
    latest = ("latest window", lambda one: one.windows[-1] if one.windows else None)
    return table(
        "defences", found, "defence=name profile corpus owner pinned", ("steps back to", _step), since, why, latest
    )


def _step(one: DefenceView) -> str | None:
    if one.stands is None:
        return None
    before = f" {one.falls_back_to[:12]}" if one.falls_back_to else ""
    return f"{one.stands.step.replace('_', ' ')}{before}"


@over_http
def rollout(
    client: SluiceClient,
    version: str | None = None,
    shadow: bool = False,
    canary: bool = False,
    promote: bool = False,
    stop: bool = False,
    rollback: bool = False,
    report: bool = False,
    stages: str = "10,50,100",
    unit: Literal["session", "run"] = "session",
    markdown: Path | None = None,
    note: str = "",
) -> Shown:
    """Try a learned model: in shadow, for a share of the runs, or for all; report on it, or end its part."""
    action = chosen(shadow=shadow, canary=canary, promote=promote, stop=stop, rollback=rollback, report=report)
    if action == "report":
        return _report(client, version or _active(client).model_version, markdown)
    if action is None:
        found = _active(client) if version is None else _named(client, version)
    else:
        trial = {"stages": _shares(stages), "unit": unit} if action == "canary" else {}
        named = None if action == "rollback" else version
        found = client.apply_rollout(action, note=note, **given(version=named), **trial)
    return Shown(found, lambda: _print_rollout(client, found))


def _active(client: SluiceClient) -> Rollout:
    found = next((one for one in client.rollouts() if one.status in ACTIVE), None)
    if found is None:
        raise NotFound(
            "no model has a part in the gate's decisions: `sluice gate rollout VERSION --shadow` gives it one"
        )
    return found


def _named(client: SluiceClient, version: str) -> Rollout:
    found = next((one for one in client.rollouts() if one.model_version == version), None)
    if found is None:
        raise NotFound(f"model {version!r} was never rolled out")
    return found


def _shares(stages: str) -> list[float]:
    try:
        return [float(part) / 100 for part in stages.split(",")]
    except ValueError as error:
        raise wrong("stages", f"{stages!r} are not percentages", "for instance 10,50,100") from error


def _report(client: SluiceClient, version: str, markdown: Path | None) -> Shown:
    found = client.rollout_report(version)

    def page() -> str:
        from sluice.evaluation.report import to_markdown
        from sluice.evaluation.rollout.ab_report import AbReport, list_blocks

        return to_markdown(list_blocks(AbReport.model_validate_json(json.dumps(found))))

    if markdown is not None:
        markdown.write_text(page())
    return Shown(found, lambda: say(page()))


def _print_rollout(client: SluiceClient, found: Rollout) -> None:
    flag = next(one for one in client.flags() if one.name == "learned_gate")
    if found.status in ACTIVE and not flag.enabled:
        why = f" ({flag.why})" if flag.why else ""
        told = f"no model decides: the flag learned_gate is off{why}; `sluice flags learned_gate --on`"
        console.print(f"[red]{marked(told)}[/]")
    say(f"model {found.model_version} is {found.status} at {found.share:.0%} of the units")
    for share, runs in zip(found.stages, found.expected_runs, strict=False):
        say(f"  {share:.0%} takes at most {runs:,} gate runs")
    verdict = ("verdict", lambda one: one.verdict or "-")
    print_rows("steps", found.history, "at status share", verdict, "by=operator why")
