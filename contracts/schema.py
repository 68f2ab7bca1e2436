"""JSON Schemas of every event and of the HTTP interface's values, for readers in other languages.

`python -m sluice.contracts.schema` writes them to `contracts/schemas/`; a test fails when they are out of date.
"""

from __future__ import annotations

import json
from pathlib import Path

import sluice.contracts
from sluice.contracts import api, retrieval
from sluice.contracts.base import Value
from sluice.contracts.event import Event
from sluice.contracts.graph import api as graph
from sluice.contracts.learning import control
from sluice.contracts.memory import api as memory
from sluice.contracts.operations import forget, quarantine

FOLDER = Path(__file__).parent / "schemas"

API_VALUES: tuple[type[Value], ...] = (
    api.GateRequest,
    api.DocumentsRequest,
    api.DocumentText,
    api.FeedbackRequest,
    control.FlagRequest,
    control.FlagResult,
    forget.ForgetProof,
    forget.ForgetRequest,
    graph.CypherRequest,
    graph.CypherResult,
    graph.GraphStatus,
    graph.Linked,
    graph.GraphServerHealth,
    graph.NearestDocuments,
    graph.Neighbours,
    graph.RebuildRequest,
    memory.IterationAccepted,
    memory.IterationSubmission,
    memory.LearningPatch,
    memory.LearningRequest,
    memory.LearningResult,
    memory.Learnings,
    memory.PromptBlock,
    memory.RagStatus,
    memory.Recall,
    quarantine.QuarantinedText,
    api.RunAccepted,
    api.RunView,
    api.Problem,
    api.Health,
    retrieval.Query,
    retrieval.Retrieval,
)


def schemas() -> dict[str, str]:
    """File name to JSON Schema text, of each registered body, the envelope and the interface's values."""
    bodies = {f"{kind}.v{version}.json": body for (kind, version), body in sluice.contracts.Body.registry.items()}
    named: tuple[type[Value], ...] = (Event, *API_VALUES)
    models: dict[str, type[Value]] = {**bodies, **{f"{value.__name__}.json": value for value in named}}
    return {name: _text(model) for name, model in sorted(models.items())}


def write_schemas(folder: Path = FOLDER) -> int:
    """Write every schema and remove those that no longer belong to anything. Returns how many there are."""
    current = schemas()
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.json"):
        if stale.name not in current:
            stale.unlink()
    for name, text in current.items():
        (folder / name).write_text(text)
    return len(current)


def _text(model: type[Value]) -> str:
    return json.dumps(model.model_json_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(f"{write_schemas()} schemas in {FOLDER}")  # noqa: T201 - a command's answer
