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
from sluice.contracts.operations import corpora, forget, quarantine

FOLDER = Path(__file__).parent / "schemas"

_API_VALUES = {
    corpora: "BatchResult ChunkView CorpusPatch CorpusView DocumentCount DocumentPatch DocumentView LinkView NewCorpus",
    api: "GateBatch GateRequest QueryBatch QueryRequest DocumentsRequest DocumentText "
    "FeedbackRequest RunAccepted RunView Problem Health",
    control: "FlagRequest FlagResult",
    forget: "ForgetProof ForgetRequest",
    graph: "CypherRequest CypherResult GraphStatus Linked GraphServerHealth NearestDocuments Neighbours RebuildRequest",
    memory: "IterationAccepted IterationSubmission LearningPatch LearningRequest LearningResult Learnings PromptBlock "
    "RagStatus Recall",
    quarantine: "QuarantinedText",
    retrieval: "JoinedRetrieval Query Retrieval",
}
"""The interface's values, by module."""


def schemas() -> dict[str, str]:
    """Return JSON Schema text by file name, for each registered body, the envelope and the interface's values."""
    bodies = {f"{kind}.v{version}.json": body for (kind, version), body in sluice.contracts.Body.registry.items()}
    values = {f"{name}.json": getattr(module, name) for module, names in _API_VALUES.items() for name in names.split()}
    models: dict[str, type[Value]] = {**bodies, **values, "Event.json": Event}
    described = {name: model.model_json_schema() for name, model in sorted(models.items())}
    return {name: json.dumps(schema, indent=2, sort_keys=True) + "\n" for name, schema in described.items()}


def write_schemas(folder: Path = FOLDER) -> int:
    """Write every schema and remove obsolete ones. Returns the number of schemas."""
    current = schemas()
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.json"):
        if stale.name not in current:
            stale.unlink()
    for name, text in current.items():
        (folder / name).write_text(text)
    return len(current)


if __name__ == "__main__":
    print(f"{write_schemas()} schemas in {FOLDER}")  # noqa: T201 - a command's answer
