"""The README's example: what it asks is answered, first of all, by what it says to ingest."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sluice.contracts.api import GateRequest
from sluice.workers.service.read_files import documents_in
from tests.support.in_process import MakeInstance
from tests.support.repository import REPOSITORY

EXPECTED = ("a worker or another process dies", "started again")
"""What the answer's first source says of a worker that dies."""


def test_the_first_source_answers_the_question_of_the_readme(make_instance: MakeInstance) -> None:
    readme = (REPOSITORY / "README.md").read_text()
    [folder] = set(re.findall(r"sluice ingest (\S+)", readme))
    [question] = set(re.findall(r'sluice ask "([^"]+)"', readme))
    instance = make_instance()
    documents = documents_in([REPOSITORY / folder], now=datetime.now(UTC), on_skip=lambda path, reason: None)
    ingested = instance.service.ingest("default", documents).run_id
    instance.works("chunk", "embed", "index")
    assert instance.context.ledger.run(ingested).status == "finished"
    asked = instance.service.ask(GateRequest(query=question)).run_id
    instance.works("query", "gate", "query")
    answer = instance.context.ledger.run(asked).answer
    assert answer is not None
    assert all(words in answer.chunks[0].text for words in EXPECTED), answer.context[:2_000]
