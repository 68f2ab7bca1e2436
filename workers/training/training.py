"""A training from end to end: its inputs, and the files of the model that results."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import numpy as np

from sluice.contracts.gate import CoverageProbed, GateRequested
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.evaluation.learned_gate import METADATA, MODEL, REPORT, UNSEEN, count_said
from sluice.evaluation.report import Block, Table, say_spread, to_markdown
from sluice.gate.learned.model import Costs, GateModel
from sluice.gate.profile import Profile
from sluice.ledger.ledger import Ledger
from sluice.workers.training.examples import MOST_OF_OWNER, Example, weigh_together, weight_of
from sluice.workers.training.fit import WAYS, Comparison, compare, fit_gate, load_fitting, unseen_probabilities

SEED = 0
"""Seed of the resamples behind the intervals; the fit itself draws nothing."""
LIBRARIES = ("sluice", "scikit-learn", "numpy", "scipy")


@dataclass(frozen=True, slots=True)
class Training:
    """The inputs and the parameters of a fit."""

    version: str
    fingerprint: str
    profile: Profile
    prior: Sequence[Example]
    runs: Sequence[Example]
    folders: Sequence[Path]
    pseudo_runs: float
    costs: Costs
    several_owners: bool = False

    def files(self) -> Mapping[str, bytes]:
        """Fit and measure a model; return its files by name.

        Raises `InvalidInput` if there are too few examples, and `Unavailable` if scikit-learn is not installed.
        """
        load_fitting("linear_model")
        examples = weigh_together(self.prior, self.runs, self.pseudo_runs, several_owners=self.several_owners)
        model = fit_gate(examples, self.version, self.fingerprint, self.costs)
        comparisons = list(compare(examples, WAYS, self.fingerprint, self.costs, self.profile))
        metadata = self._metadata(model, comparisons, self._owners(examples))
        return {
            MODEL: model.to_bytes(),
            METADATA: _json(metadata),
            UNSEEN: _json(self._unseen(examples)),
            REPORT: to_markdown(list_blocks(metadata, comparisons)).encode(),
        }

    def _unseen(self, examples: Sequence[Example]) -> Any:
        """Return, by source, the probabilities of models that did not see that source."""
        found = {}
        for source in sorted({one.source for one in examples}):
            own = [one for one in examples if one.source == source]
            probabilities = unseen_probabilities(own, examples, self.fingerprint, self.costs)
            told = zip(probabilities.tolist(), own, strict=True)
            said = count_said((p, one.is_covered, one.weight) for p, one in told)
            found[source] = [[one.probability, round(one.covered, 6), round(one.missing, 6)] for one in said]
        return found

    def _owners(self, examples: Sequence[Example]) -> list[dict[str, Any]]:
        """Return what each owner's labels weigh, and what a model without them is worth on them; for several owners."""
        owners = sorted({one.owner for one in self.runs}) if self.several_owners else []
        apart = [replace(one, source=one.owner or one.source) for one in examples]
        compared = compare(apart, ("left out",), self.fingerprint, self.costs, self.profile) if owners else ()
        unseen = {one.source: one for one in compared}
        told = []
        for owner in owners:
            own = [one for one in examples if one.owner == owner]
            facts = {"owner": owner, "count": len(own), "covered": sum(one.is_covered for one in own)}
            facts["share"] = round(weight_of(own) / weight_of(examples), 4)
            one = unseen.get(owner)
            told.append(facts | {"f1": [round(one.heuristic_f1, 4), round(one.learned_f1, 4)] if one else None})
        return told

    def _metadata(
        self, model: GateModel, comparisons: Sequence[Comparison], owners: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        kinds = Counter((one.source, one.kind) for one in self.prior)
        return {
            "version": self.version,
            "model_sha256": model.sha256,
            "trained_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "features_version": model.features_version,
            "embedder_fingerprint": self.fingerprint,
            "profile": {"name": self.profile.name, "config_hash": self.profile.config_hash},
            "seed": SEED,
            "versions": {"python": platform.python_version()} | {name: version_of(name) for name in LIBRARIES},
            "costs": self.costs.model_dump(),
            "thresholds": model.thresholds.model_dump(),
            "calibration_method": model.calibration_method,
            "pseudo_runs": self.pseudo_runs,
            "runs": {"count": len(self.runs), "covered": sum(one.is_covered for one in self.runs), "owners": owners},
            "collections": [
                describe_collection(folder)
                | {"cases": {kind: count for (source, kind), count in kinds.items() if source == folder.name}}
                for folder in self.folders
            ],
            "measures": [asdict(one) for one in comparisons],
        }


def recorded_runs(
    ledger: Ledger, fingerprint: str, since: float
) -> Iterator[tuple[RunOutcome, GateRequested, CoverageProbed]]:
    """Yield the judged runs decided since a moment (seconds since 1970) whose question and probe are still recorded,
    with all that a model reads."""
    for outcome in ledger.outcomes.decided_between(since):
        if not outcome.signals:
            continue
        requested = ledger.events_of_kind(outcome.run_id, GateRequested.kind)
        probed = ledger.events_of_kind(outcome.run_id, CoverageProbed.kind)
        if requested and probed:
            measured = probed[-1].body_as(CoverageProbed)
            is_whole = measured.embedder_down is None and measured.answerable is not None
            if measured.model_fingerprint == fingerprint and is_whole:
                yield outcome, requested[-1].body_as(GateRequested), measured


def describe_collection(folder: Path) -> dict[str, Any]:
    """Return a collection's name, the hash of each of its files, and the licence that its `meta.json` states."""
    files = [path for path in sorted(folder.iterdir()) if path.name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv")]
    meta = folder / "meta.json"
    told = json.loads(meta.read_text(encoding="utf-8")) if meta.is_file() else {}
    return {
        "name": folder.name,
        "sha256": {path.name: sha256(path.read_bytes()).hexdigest() for path in files},
        "licence": told.get("licence", "not stated beside the collection"),
        "source": told.get("source", "not stated beside the collection"),
    }


def list_blocks(metadata: Mapping[str, Any], comparisons: Sequence[Comparison]) -> Iterator[Block]:
    """Yield the blocks of the report on the measures."""
    yield f"# Learned gate {metadata['version']}"
    yield (
        f"Fitted {metadata['trained_at']} on {metadata['runs']['count']} recorded runs and "
        f"{len(metadata['collections'])} collections, which weigh as {metadata['pseudo_runs']:g} runs and fade as runs "
        f"come. Features {metadata['features_version']}, vectors of `{metadata['embedder_fingerprint']}`, calibration "
        f"{metadata['calibration_method']}, against profile {metadata['profile']['name']}."
    )
    yield (
        "F1 is of going outside where the corpus does not answer, AUC the area under its curve, ECE the expected\n"
        "calibration error in ten bins of equal weight; in brackets 95 of 100 draws of the questions. *Perfect* is\n"
        "what probabilities that are exactly right would measure on so many cases."
    )
    if owners := metadata["runs"].get("owners"):
        f1 = [", ".join(f"{value:.3f}" for value in one["f1"]) if one["f1"] else "too few" for one in owners]
        told = [
            (one["owner"], str(one["count"]), str(one["covered"]), f"{one['share']:.1%}", of_both)
            for one, of_both in zip(owners, f1, strict=True)
        ]
        columns = ("API key", "runs", "covered", "share of all evidence", "F1 profile, of a model without its labels")
        yield Table(f"Labels by API key; each weighs at most {MOST_OF_OWNER:.0%}, or as the second does", columns, told)
    for way in WAYS:
        rows = [one for one in comparisons if one.way == way]
        if rows:
            yield tabulate(rows, way.capitalize())


def tabulate(rows: Sequence[Comparison], title: str = "") -> Table:
    """Return a row for each comparison, and their means."""
    figures = ("F1 profile", "F1 learned", "difference", "AUC profile", "AUC learned", "ECE", "perfect")
    means = [float(np.mean([getattr(one, name) for one in rows])) for name in _AVERAGED]
    before, after, *areas = (f"{mean:.3f}" for mean in means)
    last = ("mean", "", before, after, f"{means[1] - means[0]:+.3f}", *areas, "", "")
    return Table(title, ("collection", "cases", *figures), [*map(_row, rows), last])


def _row(one: Comparison) -> tuple[str, ...]:
    return (
        one.source,
        str(one.cases),
        *(f"{one.heuristic_f1:.3f}", f"{one.learned_f1:.3f}", say_spread(*one.difference, "+.3f")),
        *(f"{one.heuristic_area:.3f}", f"{one.learned_area:.3f}", say_spread(*one.calibration_error, ".3f")),
        f"{one.perfect_calibration_error:.3f}",
    )


_AVERAGED = ("heuristic_f1", "learned_f1", "heuristic_area", "learned_area")


def suggest_version(now: datetime, known: Sequence[str]) -> str:
    """Return the date, with the first number behind it that is free."""
    day = now.strftime("%Y-%m-%d")
    return next(name for number in range(1, 1_000) if (name := f"{day}.{number}") not in known)


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
