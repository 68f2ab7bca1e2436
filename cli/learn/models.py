"""`sluice gate models`: the learned gates that there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sluice.cli.configured import configured
from sluice.cli.output import AsJson, errors_told, print_json, print_table
from sluice.contracts.errors import InvalidInput
from sluice.evaluation.learned_gate.model_files import METADATA, MODEL, list_models
from sluice.gate.learned.model import GateModel

COLUMNS = ("version", "sha256", "trained_at", "sources", "search_below", "full_loop_below", "usable")


def models(as_json: AsJson = False) -> None:
    """List the learned gates: what they were fitted on, their thresholds, and whether they can be used here."""
    with errors_told(as_json=as_json):
        settings = configured()
        found = [_facts(folder, settings.embed) for folder in list_models(settings.data_dir).values()]
        if as_json:
            print_json(found)
        else:
            rows = [tuple(str(one[name]) for name in COLUMNS) for one in found]
            print_table("learned gates", COLUMNS, rows)


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
