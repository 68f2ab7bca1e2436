"""Code is found by what it does, in files of code alone."""

from __future__ import annotations

import asyncio

import pytest

from sluice.contracts.api import CodeSearchRequest, DocumentsRequest
from sluice.contracts.errors import InvalidInput
from sluice.contracts.retrieval import Query, Retrieval, RetrievedChunk
from sluice.workers.broker.direct_query import QueryPool
from sluice.workers.context import Context
from tests.support.in_process import MakeInstance
from tests.support.searching import searched

LEASES = '''"""Leases."""


def renew(lease: Lease, now: float) -> Lease:
    """Extend a lease by five seconds."""
    return replace(lease, until=now + 5.0)


def free(lease: Lease) -> None:
    """Give a lease back before its time."""
    lease.until = 0.0
'''
OTHERS = {
    "shop/docs/leases.md": "# Leases\n\nTo renew a lease, extend the lease by five seconds before its end.",
    "shop/lease.go": "package shop\n\n// Renew extends a lease by five seconds.\nfunc Renew(l *Lease) { l.Until += 5 }\n",
    "farm/leases.py": "def renew_lease(field):\n    return field.rent_for_a_year()\n",
}


class InProcess(QueryPool):
    """A pool whose query worker is this process."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def ask(self, query: Query, traceparent: str | None) -> bytes:
        return searched(query, self._context)[0].model_dump_json().encode()

    def finds(self, **fields: object) -> tuple[RetrievedChunk, ...]:
        request = CodeSearchRequest.model_validate({"query": "extend a lease", "corpus": "docs", **fields})
        return Retrieval.model_validate_json(asyncio.run(self.code_search(request, None))).chunks


def test_code_is_found_by_a_question_with_its_file_and_lines(make_instance: MakeInstance) -> None:
    instance = make_instance()
    files = {"shop/leases.py": LEASES, **OTHERS}
    documents = [{"file_path": path, "text": text} for path, text in files.items()]
    instance.service.add_documents(
        DocumentsRequest.model_validate({"corpus": "docs", "create_corpus": True, "documents": documents})
    )
    instance.works("chunk", "embed", "index")

    pool = InProcess(instance.context)

    def found(**fields: object) -> list[str | None]:
        return [chunk.file_path for chunk in pool.finds(**fields)]

    assert set(found()) == {"shop/leases.py", "shop/lease.go", "farm/leases.py"}
    assert set(found(repo_path="shop/")) == {"shop/leases.py", "shop/lease.go"}
    assert set(found(language="Python", repo_path="shop/")) == {"shop/leases.py"}
    with pytest.raises(InvalidInput, match="is no programming language"):
        found(language="english")
    [chunk] = pool.finds(query="def renew(lease", language="python", repo_path="shop/", top_k=1)
    assert chunk.start_line <= 4 < chunk.end_line
    assert chunk.dense_distance is not None
