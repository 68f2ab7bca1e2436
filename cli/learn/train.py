"""`sluice gate train`: a learned gate from recorded runs and public collections."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.output import AsJson, console, marked, print_json
from sluice.cli.session import session
from sluice.contracts.errors import InvalidInput, InvalidSetting
from sluice.evaluation.learned_gate.model_files import list_models, own_models_dir, write_model
from sluice.gate.learned.model import Costs
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
        files = _files(context, name, list(data or ()), since_days, profile, pseudo_runs, questions, costs)
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


def _files(
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
