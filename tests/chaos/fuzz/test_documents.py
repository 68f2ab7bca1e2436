"""Documents made at random, with an ordinary one between each two: no ordinary one is lost, and each ends in bounds.

`SLUICE_FUZZ_DOCUMENTS` sets how many are made; 60 without it.
"""

from __future__ import annotations

import base64
import os
import resource
import time
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sluice.contracts.api import DocumentsRequest
from sluice.workers.steps.chunk import MOST_CPU_SECONDS
from tests.chaos.fuzz.inputs import html, jsons, markdowns, pdfs, styled
from tests.support.in_process import Instance
from tests.support.valkey import Valkey

pytestmark = pytest.mark.slow

AT_ONCE = 10
BATCHES = max(1, int(os.environ.get("SLUICE_FUZZ_DOCUMENTS", "60")) // AT_ONCE)
MOST_SECONDS_EACH = 1.5 * MOST_CPU_SECONDS
MOST_MEMORY_BYTES = 1_500_000_000

odd = st.one_of(
    *(
        st.tuples(st.just(media_type), bodies)
        for media_type, bodies in (
            ("text/html", html),
            ("text/html", styled),
            ("application/json", jsons),
            ("text/markdown", markdowns),
            ("application/pdf", pdfs),
        )
    )
)


@pytest.fixture
def instance(valkey: Valkey) -> Iterator[Instance]:
    instance = Instance(valkey, {"chunk": {"max_document_tokens": 2_000}})
    yield instance
    instance.close()


def test_no_neighbour_of_an_odd_document_is_lost(instance: Instance) -> None:
    numbers = count()
    slowest = 0.0

    @settings(
        max_examples=BATCHES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(odd, min_size=AT_ONCE, max_size=AT_ONCE))
    def one(made: list[tuple[str, bytes]]) -> None:
        nonlocal slowest
        documents, ordinary = list[dict[str, object]](), list[str]()
        for media_type, body in made:
            number = next(numbers)
            documents.append({"id": f"odd-{number}", "media_type": media_type, "data": base64.b64encode(body).decode()})
            ordinary.append(f"plain-{number}")
            documents.append({"id": ordinary[-1], "text": f"The heron number {number} stands in the shallow water."})
        started = time.perf_counter()
        run_id = instance.service.add_documents(DocumentsRequest.model_validate({"documents": documents})).run_id
        run = instance.context.ledger.run(run_id)
        while run.status == "open":
            instance.works("chunk", "embed", "index")
            instance.context.ledger.wake_due_retries()
            run = instance.context.ledger.run(run_id)
        slowest = max(slowest, (time.perf_counter() - started) / len(made))
        reader = instance.context.readers.existing("default")
        reader.reload()
        lost = [name for name in ordinary if not reader.has_document(name)]
        told = {gap.subject for gap in run.missing}
        names = [str(one["id"]) for one in documents]
        untold = [name for name in names if name not in told and not reader.has_document(name)]
        assert (lost, untold) == ([], []), (run.missing, made)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    one()
    grown = 1_024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    print(f"{next(numbers)} odd documents, at most {slowest:.1f} s each, memory grown by {grown / 1e6:.0f} MB")
    assert slowest < MOST_SECONDS_EACH
    assert grown < MOST_MEMORY_BYTES
