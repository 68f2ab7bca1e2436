"""`sluice gate calibrate`: which thresholds suit what errors cost, and what they would decide."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sluice.cli.learn.train import DAY_SECONDS, stated_costs
from sluice.cli.output import AsJson, console, marked, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.errors import InvalidInput
from sluice.evaluation.learned_gate.confusion import Confusion, Said, confuse, count_said
from sluice.evaluation.learned_gate.model_files import (
    METADATA,
    MODEL,
    UNSEEN,
    find_model,
    list_models,
    own_models_dir,
    write_model,
)
from sluice.gate.learned.model import Costs, GateModel, Thresholds
from sluice.workers.context import Context

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
