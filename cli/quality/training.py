"""`sluice gate train` and `sluice gate calibrate`: fit a learned gate; find thresholds for costs of error."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

from sluice.cli.command import Shown, on_disk
from sluice.cli.output import print_table, say
from sluice.contracts.errors import InvalidInput, InvalidSetting
from sluice.evaluation.learned_gate import (
    METADATA,
    MODEL,
    UNSEEN,
    Confusion,
    Said,
    confuse,
    count_said,
    find_model,
    list_models,
    own_models_dir,
    share_models,
    write_model,
)
from sluice.gate.learned.model import Costs, GateModel, Thresholds
from sluice.workers.context import Context

DAY_SECONDS = 86_400.0
FEWEST_RUNS = 50
"""Judged runs below which they are too few to choose thresholds; only the training's collections count then."""


@on_disk
def train(
    context: Context,
    data: list[Path] | None = None,
    version: str | None = None,
    since_days: float = 90.0,
    profile: str = "default",
    pseudo_runs: float = 1_000.0,
    questions: int = 500,
    cost_outside: float = 1.0,
    cost_full_loop: float | None = None,
    cost_miss: float = 1.0,
    out: Path | None = None,
) -> Shown:
    """Fit a learned gate, measure it on cases that it has not seen, and write its files. Decisions stay as they are.

    Needs the extra `fit`. The collections are embedded on this machine: minutes the first time.
    """
    from sluice.gate.profile import choose_profile
    from sluice.ingest.embed.embed import fingerprint_of_corpus
    from sluice.workers.training.examples import examples_of_runs
    from sluice.workers.training.fit import load_fitting
    from sluice.workers.training.prior_sets import list_collections, prior_examples
    from sluice.workers.training.training import Training, recorded_runs, suggest_version

    settings = context.settings
    share_models(settings.data_dir, context.object_store)
    name = version or suggest_version(datetime.now(UTC), list(list_models(settings.data_dir)))
    folder = (out or own_models_dir(settings.data_dir)) / name
    costs = stated_costs(cost_outside, cost_full_loop, cost_miss)
    load_fitting("linear_model")  # before the minutes of embedding
    if data and settings.embed.uses_endpoint:
        problem = "collections are embedded on this machine, as nothing would bound what an endpoint costs"
        raise InvalidSetting("embed.provider", problem, "train on recorded runs alone, without --data")
    compared = choose_profile(context.profiles, profile)
    folders = list_collections(data or [])
    fingerprint = fingerprint_of_corpus(settings.embed, "default")
    recorded = recorded_runs(context.ledger, fingerprint, time.time() - since_days * DAY_SECONDS)
    runs = examples_of_runs(recorded, compared)
    training = Training(
        version=name,
        fingerprint=fingerprint,
        profile=compared,
        prior=prior_examples(folders, context.embedder, settings, compared, questions),
        runs=runs,
        folders=folders,
        pseudo_runs=pseudo_runs,
        costs=costs,
        several_owners=len(context.ledger.keys.agents() | {one.owner for one in runs}) > 1,
    )
    files = dict(training.files())
    write_model(folder, files)
    share_models(settings.data_dir, context.object_store)
    told = f"{files['report.md'].decode()}\nwritten to {folder}; nothing uses it yet"
    return Shown({"version": name, "folder": str(folder)}, told)


def stated_costs(outside: float, full_loop: float | None, miss: float) -> Costs:
    """Return the costs of errors. Without `full_loop`, a needless full loop costs as much as four searches. Raises
    `InvalidInput` if a cost is not above 0."""
    for name, cost in (("--cost-outside", outside), ("--cost-full-loop", full_loop), ("--cost-miss", miss)):
        if cost is not None and not cost > 0:
            raise InvalidInput(name, f"{cost:g} is no cost", "give one above 0")
    return Costs(outside=outside, full_loop=4 * outside if full_loop is None else full_loop, miss=miss)


@on_disk
def calibrate(
    context: Context,
    cost_outside: float,
    cost_miss: float,
    cost_full_loop: float | None = None,
    model: str | None = None,
    since_days: float = 90.0,
    write: str | None = None,
) -> Shown:
    """Propose thresholds for stated costs of error, with the confusion table at them. Nothing is applied."""
    costs = stated_costs(cost_outside, cost_full_loop, cost_miss)
    data_dir = context.settings.data_dir
    share_models(data_dir, context.object_store)
    folder = find_model(model or _latest(data_dir), data_dir)
    present = GateModel.from_bytes((folder / MODEL).read_bytes())
    proposed = Thresholds.of_costs(costs)
    said = _unseen(folder) | _runs(context, present, since_days)
    if write is not None:
        _write(present, folder, write, costs, proposed, own_models_dir(data_dir))
        share_models(data_dir, context.object_store)
    both = {source: _both(cases, present, proposed) for source, cases in said.items()}
    value = {
        "model": present.version,
        "costs": costs,
        "present": present.thresholds,
        "proposed": proposed,
        "applied": False,
        "sources": {
            source: {name: vars_of(one, costs) for name, one in confusions} for source, confusions in both.items()
        },
    }
    return Shown(value, lambda: _print(present, costs, proposed, both))


def _latest(data_dir: Path) -> str:
    known = list_models(data_dir)
    if not known:
        raise InvalidInput("--model", "there is no model", "train one: sluice gate train")
    return list(known)[-1]


def _unseen(folder: Path) -> dict[str, list[Said]]:
    """Return the training's predictions for cases left out of its fit, by source. Empty where the file is missing."""
    path = folder / UNSEEN
    told = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {source: [Said(*row) for row in rows] for source, rows in told.items()}


def _runs(context: Context, model: GateModel, since_days: float) -> dict[str, list[Said]]:
    """Return the model's predictions for judged runs. Empty where there are fewer than `FEWEST_RUNS`."""
    from sluice.workers.training.examples import examples_of_runs
    from sluice.workers.training.training import recorded_runs

    since = time.time() - since_days * DAY_SECONDS
    found = examples_of_runs(
        recorded_runs(context.ledger, model.embedder_fingerprint, since), context.profiles["default"]
    )
    owners = {f"recorded runs of {since_days:g} days, {one.owner}": one.owner for one in found}
    apart = {name: [one for one in found if one.owner == owner] for name, owner in owners.items()}
    return {
        name: count_said((model.probability(one.features), one.is_covered, one.weight) for one in own)
        for name, own in apart.items()
        if len(own) >= FEWEST_RUNS
    }


def vars_of(found: Confusion, costs: Costs) -> dict[str, float]:
    """Return the shares of a confusion table, and its mean cost."""
    shares = {name: round(getattr(found, name), 4) for name in Confusion.__dataclass_fields__}
    return {**shares, "mean_cost": round(_cost(found, costs), 4)}


def _print(
    present: GateModel, costs: Costs, proposed: Thresholds, both: dict[str, list[tuple[str, Confusion]]]
) -> None:
    say(
        f"model {present.version}: search below {proposed.search_below:.3f}, full loop below "
        f"{proposed.full_loop_below:.3f} (now {present.thresholds.search_below:.3f} and "
        f"{present.thresholds.full_loop_below:.3f}). A search for nothing costs {costs.outside:g}, a full loop "
        f"{costs.full_loop:g}, a missed answer {costs.miss:g}."
    )
    for source, confusions in both.items():
        rows = []
        for name, found in confusions:
            for corpus in ("covered", "missing"):
                shares = (getattr(found, f"{corpus}_{plan}") for plan in ("retrieve", "search", "full_loop"))
                cost = f"{_cost(found, costs):.3f}" if corpus == "covered" else ""
                rows.append((name, corpus, *(f"{share:.1%}" for share in shares), cost))
        print_table(source, ("thresholds", "corpus", "retrieve", "search", "full loop", "mean cost"), rows)
    if not both:
        say("no case to count: the model's folder lacks unseen.json, and too few runs were judged")
    say("nothing is applied: --write VERSION writes a model with these thresholds, for a canary to try")


def _both(cases: list[Said], present: GateModel, proposed: Thresholds) -> list[tuple[str, Confusion]]:
    both = (("present", present.thresholds), ("proposed", proposed))
    return [(name, confuse(cases, one.search_below, one.full_loop_below)) for name, one in both]


def _cost(found: Confusion, costs: Costs) -> float:
    return found.cost(costs.outside, costs.full_loop, costs.miss)


def _write(present: GateModel, folder: Path, version: str, costs: Costs, proposed: Thresholds, own: Path) -> None:
    """Write a new version of the model that differs only in its thresholds, with a record of its origin."""
    fields = {**dict(present), "version": version, "costs": costs, "thresholds": proposed}
    changed = GateModel.model_validate(fields)
    path = folder / METADATA
    metadata = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    metadata |= {
        "version": version,
        "model_sha256": changed.sha256,
        "thresholds": proposed.model_dump(),
        "costs": costs.model_dump(),
        "calibrated_from": {"version": present.version, "model_sha256": present.sha256},
    }
    files = {MODEL: changed.to_bytes(), METADATA: (json.dumps(metadata, indent=1) + "\n").encode()}
    if (folder / UNSEEN).is_file():
        files[UNSEEN] = (folder / UNSEEN).read_bytes()
    write_model(own / version, files)
