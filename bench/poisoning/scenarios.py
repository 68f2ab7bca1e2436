"""Honest texts and floods against them, from a file of scenarios, through the index and the answer.

    python -m bench.poisoning.scenarios FILE [--claimed]

FILE is a JSON list of `{"name", "kind", "question", "honest": [{"text", "source", "time"}], "forged": […]}`. A source
`site.example/page` is a crawled page, `repo/…` a file; any other is a submission by the key of that name. With
`--claimed` the forged pages are submissions of one key, which claims their addresses.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.append_documents import append_documents
from sluice.contracts.document import Document, Provenance
from sluice.contracts.index import Answer
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.search.compose_answer import compose_answer
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.minilm import MiniLM
from sluice.trust.settings import TrustSettings
from sluice.trust.source_trust import SourceTrust
from sluice.workers.steps.trusted import apply_trust, describe_question
from tests.support.repository import MODELS


def main() -> None:
    """Measure, and print a line for each scenario with an error, and the sums."""
    parser = argparse.ArgumentParser(prog="bench.poisoning.scenarios", description=str(__doc__).partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--claimed", action="store_true", help="forged pages are submissions of one key")
    arguments = parser.parse_args()
    embedder, sums = MiniLM(MODELS), Counter[str]()
    for scenario in json.loads(arguments.file.read_bytes()):
        errors = measure(scenario, embedder, claimed=arguments.claimed)
        sums.update(f"{scenario['kind']}: {one}" for one in ("scenarios", *errors))
        if errors:
            print(f"{scenario['name']:<12} {'; '.join(errors)}")
    for what, count in sorted(sums.items()):
        print(f"{count:>4}  {what}")


def measure(scenario: dict[str, Any], embedder: MiniLM, *, claimed: bool) -> list[str]:
    """Return what is wrong with the answer to the question of a scenario."""
    honest = [_document(f"honest-{n}", one) for n, one in enumerate(scenario["honest"])]
    forged = [
        _document(f"forged-{n}", one, "key_forger" if claimed else None) for n, one in enumerate(scenario["forged"])
    ]
    alone, answer = (_answer(scenario["question"], texts, embedder) for texts in (honest, [*forged, *honest]))
    marked = [chunk.document_id for chunk in answer.chunks if chunk.inspection and chunk.inspection.findings]
    order = [chunk.document_id.partition("-")[0] for chunk in answer.chunks]
    errors = ["an honest text is marked"] if any(name.startswith("honest") for name in marked) else []
    if forged and order[0] != "honest":
        errors.append("a forged text is first")
    if forged and not any(name.startswith("forged") for name in marked):
        errors.append("no forged text is marked")
    if answer.confidence is not None and answer.confidence > (alone.confidence or 0.0) + 0.05:
        errors.append("confidence is raised")
    return errors


def _answer(question: str, documents: list[Document], embedder: MiniLM) -> Answer:
    with tempfile.TemporaryDirectory(prefix="sluice-poisoning-") as root:
        with IndexWriter(Path(root), "c") as writer:
            append_documents(writer, documents, embedder)
        reader = IndexReader(Path(root), "c", QuerySettings(), trust=SourceTrust())
        query = Query(query=question, corpus="c", top_k=10)
        found = reader.search(query, embedder.embed([question]).vectors[0])
        asked = describe_question(query, found, reader.stats(), reader.document_frequency)
        served = apply_trust(found, query, TrustSettings(), asked)
        reader.close()
    return compose_answer(question, "c", Plan.RETRIEVE, served, 8_000)


def _document(name: str, text: dict[str, str], claimed_by: str | None = None) -> Document:
    site, _, path = text["source"].partition("/")
    is_page, is_file = site.endswith(".example"), "." in path.rpartition("/")[2]
    kind = "submission" if claimed_by or not (is_page or is_file) else "crawl" if is_page else "file"
    provenance = Provenance(
        source=kind,  # type: ignore[arg-type]
        fetched_at=datetime.fromisoformat(text["time"]).astimezone(UTC),
        submitted_by=(claimed_by if is_page else f"key_{path}") if kind == "submission" else None,
    )
    url = f"https://{text['source']}" if is_page else None
    return Document(id=name, url=url, media_type="text/plain", text=text["text"], provenance=provenance)


if __name__ == "__main__":
    main()
