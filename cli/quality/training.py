"""`sluice gate train` and `sluice gate calibrate`: fit a learned gate; find thresholds for costs of error."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from sluice.cli.output import AsJson, console, marked, print_json, print_table
from sluice.cli.session import session
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
    write_model,
)
from sluice.gate.learned.model import Costs, GateModel, Thresholds
from sluice.workers.context import Context

DAY_SECONDS = 86_400.0
Data = Annotated[
    list[Path] | None,
    typer.Option("--data", exists=True, file_okay=False, help="A collection in BEIR form, or a folder of several."),
]


def train(
    data: Data = None,
    version: Annotated[str | None, typer.Option("--version", help="Name of the model; by default the date.")] = None,
    since_days: Annotated[float, typer.Option("--since-days", min=0, help="Runs decided in so many days.")] = 90.0,
    profile: Annotated[str, typer.Option("--profile", help="The profile that it is compared with.")] = "default",
    pseudo_runs: Annotated[
        float, typer.Option("--pseudo-runs", min=1, help="As how many runs the collections weigh while there are none.")
    ] = 1_000.0,
    questions: Annotated[int, typer.Option("--questions", min=1, help="Questions of a collection at most.")] = 500,
    cost_outside: Annotated[float, typer.Option("--cost-outside", help="Of a search for nothing.")] = 1.0,
    cost_full_loop: Annotated[
        float | None, typer.Option("--cost-full-loop", help="Of a full loop for nothing; by default four searches.")
    ] = None,
    cost_miss: Annotated[float, typer.Option("--cost-miss", help="Of an answer that is missed.")] = 1.0,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the model's folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a learned gate, measure it on what it has not seen, and write its files. It decides nothing by that.

    Needs the extra `fit`. The collections are embedded on this machine: minutes the first time.
    """
    with session(as_json=as_json) as context:
        from sluice.workers.training.training import suggest_version

        known = list_models(context.settings.data_dir)
        name = version or suggest_version(datetime.now(UTC), list(known))
        folder = (out or own_models_dir(context.settings.data_dir)) / name
        costs = stated_costs(cost_outside, cost_full_loop, cost_miss)
        files = _model_files(context, name, list(data or ()), since_days, profile, pseudo_runs, questions, costs)
        write_model(folder, files)
        if as_json:
            print_json({"version": name, "folder": str(folder)})
        else:
            console.print(files["report.md"].decode(), markup=False, highlight=False)
            console.print(f"written to {marked(str(folder))}; nothing uses it yet", soft_wrap=True)


def stated_costs(outside: float, full_loop: float | None, miss: float) -> Costs:
    """The costs of errors; a full loop for nothing costs as four searches where nothing is said of it.

    Raises:
        InvalidInput: one is not above 0.
    """
    for name, cost in (("--cost-outside", outside), ("--cost-full-loop", full_loop), ("--cost-miss", miss)):
        if cost is not None and not cost > 0:
            raise InvalidInput(name, f"{cost:g} is no cost", "give one above 0")
    return Costs(outside=outside, full_loop=4 * outside if full_loop is None else full_loop, miss=miss)


def _model_files(
    context: Context,
    name: str,
    data: list[Path],
    since_days: float,
    profile_name: str,
    pseudo_runs: float,
    questions: int,
    costs: Costs,
) -> dict[str, bytes]:
    from sluice.gate.profile import choose_profile
    from sluice.ingest.embed.embed import fingerprint_of_corpus
    from sluice.workers.training.examples import examples_of_cases, examples_of_runs
    from sluice.workers.training.fit import load_fitting
    from sluice.workers.training.prior_sets import list_collections, prior_cases
    from sluice.workers.training.training import Training, recorded_runs

    load_fitting("linear_model")  # before the minutes of embedding
    settings = context.settings
    if data and settings.embed.uses_endpoint:
        raise InvalidSetting(
            "embed.provider",
            "collections are embedded on this machine, as nothing would bound what an endpoint costs",
            "train on recorded runs alone, without --data",
        )
    profile = choose_profile(context.profiles, profile_name)
    folders = list_collections(data)
    fingerprint = fingerprint_of_corpus(settings.embed, "default")
    prior = list(prior_cases(folders, context.embedder, settings, profile, questions))
    runs = recorded_runs(context.ledger, fingerprint, time.time() - since_days * DAY_SECONDS)
    training = Training(
        version=name,
        fingerprint=fingerprint,
        profile=profile,
        prior=examples_of_cases(prior, profile),
        runs=examples_of_runs(runs, profile),
        folders=folders,
        pseudo_runs=pseudo_runs,
        costs=costs,
    )
    return dict(training.files())


FEWEST_RUNS = 50
"""Judged runs below which they say too little of thresholds, and the collections of the training speak alone."""


def calibrate(
    cost_outside: Annotated[float, typer.Option("--cost-outside", help="Of a search where the corpus answers.")],
    cost_miss: Annotated[float, typer.Option("--cost-miss", help="Of an answer that is missed.")],
    cost_full_loop: Annotated[
        float | None, typer.Option("--cost-full-loop", help="Of a full loop for nothing; by default four searches.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Version; by default the latest.")] = None,
    since_days: Annotated[float, typer.Option("--since-days", min=0, help="Runs decided in so many days.")] = 90.0,
    write: Annotated[
        str | None, typer.Option("--write", help="Write the model with these thresholds under this new version.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Propose thresholds for stated costs of error, with the confusion table at them. Nothing is applied."""
    costs = stated_costs(cost_outside, cost_full_loop, cost_miss)
    with session(as_json=as_json) as context:
        data_dir = context.settings.data_dir
        folder = find_model(model or _latest(context), data_dir)
        present = GateModel.from_bytes((folder / MODEL).read_bytes())
        proposed = Thresholds.of_costs(costs)
        said = _unseen(folder) | _runs(context, present, since_days)
        if write is not None:
            _write(present, folder, write, costs, proposed, own_models_dir(data_dir))
        if as_json:
            print_json(_facts(present, costs, proposed, said))
        else:
            _print(present, costs, proposed, said)


def _latest(context: Context) -> str:
    known = list_models(context.settings.data_dir)
    if not known:
        raise InvalidInput("--model", "there is no model", "train one: sluice gate train")
    return list(known)[-1]


def _unseen(folder: Path) -> dict[str, list[Said]]:
    """What the training said of cases that its fit did not see, by source; nothing where the file is gone."""
    path = folder / UNSEEN
    told = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {source: [Said(*row) for row in rows] for source, rows in told.items()}


def _runs(context: Context, model: GateModel, since_days: float) -> dict[str, list[Said]]:
    """What the model says of recorded runs that were judged, where there are enough of them."""
    from sluice.workers.training.examples import examples_of_runs
    from sluice.workers.training.training import recorded_runs

    since = time.time() - since_days * DAY_SECONDS
    found = examples_of_runs(
        recorded_runs(context.ledger, model.embedder_fingerprint, since), context.profiles["default"]
    )
    if len(found) < FEWEST_RUNS:
        return {}
    cases = ((model.probability(one.features), one.is_covered, one.weight) for one in found)
    return {f"recorded runs of {since_days:g} days": count_said(cases)}


def _facts(present: GateModel, costs: Costs, proposed: Thresholds, said: dict[str, list[Said]]) -> dict[str, Any]:
    return {
        "model": present.version,
        "costs": costs,
        "present": present.thresholds,
        "proposed": proposed,
        "applied": False,
        "sources": {
            source: {name: vars_of(found, costs) for name, found in _both(cases, present, proposed)}
            for source, cases in said.items()
        },
    }


def vars_of(found: Confusion, costs: Costs) -> dict[str, float]:
    """The shares of a confusion table, and its mean cost."""
    shares = {name: round(getattr(found, name), 4) for name in Confusion.__dataclass_fields__}
    return {**shares, "mean_cost": round(_cost(found, costs), 4)}


def _print(present: GateModel, costs: Costs, proposed: Thresholds, said: dict[str, list[Said]]) -> None:
    console.print(
        f"model {marked(present.version)}: search below {proposed.search_below:.3f}, full loop below "
        f"{proposed.full_loop_below:.3f} (now {present.thresholds.search_below:.3f} and "
        f"{present.thresholds.full_loop_below:.3f}). A search for nothing costs {costs.outside:g}, a full loop "
        f"{costs.full_loop:g}, a missed answer {costs.miss:g}.",
        highlight=False,
        soft_wrap=True,
    )
    for source, cases in said.items():
        columns = ("thresholds", "corpus", "retrieve", "search", "full loop", "mean cost")
        rows = []
        for name, found in _both(cases, present, proposed):
            for corpus in ("covered", "missing"):
                shares = (getattr(found, f"{corpus}_{plan}") for plan in ("retrieve", "search", "full_loop"))
                cost = f"{_cost(found, costs):.3f}" if corpus == "covered" else ""
                rows.append((name, corpus, *(f"{share:.1%}" for share in shares), cost))
        print_table(source, columns, rows)
    if not said:
        console.print("no case to count: the model's folder lacks unseen.json, and too few runs were judged")
    console.print("nothing is applied: --write VERSION writes a model with these thresholds, for a canary to try")


def _both(cases: list[Said], present: GateModel, proposed: Thresholds) -> list[tuple[str, Confusion]]:
    both = (("present", present.thresholds), ("proposed", proposed))
    return [(name, confuse(cases, one.search_below, one.full_loop_below)) for name, one in both]


def _cost(found: Confusion, costs: Costs) -> float:
    return found.cost(costs.outside, costs.full_loop, costs.miss)


def _write(present: GateModel, folder: Path, version: str, costs: Costs, proposed: Thresholds, own: Path) -> None:
    """A new version of the model, other in its thresholds alone, with a record of where it is from."""
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
