"""A passage that is on another topic than the document it suddenly stands in is served with a mark."""

from __future__ import annotations

import pytest

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.retrieval import Query, Strategy
from sluice.contracts.trust import Verdict
from tests.support.in_process import Instance, MakeInstance
from tests.support.searching import searched

SECTIONS = (
    "Coral reefs are built by colonies of polyps, which secrete skeletons of calcium carbonate beneath themselves. "
    "Over thousands of years the skeletons of the dead become the rock of the reef, on which the living coral grows.",
    "Reef fish feed on algae and keep the coral free of it, so overfishing lets the algae cover whole reefs. "
    "Where parrotfish are protected, young coral settles on the cleaned rock and the reef recovers within a decade.",
    "Warm water makes the polyps expel the algae that live within them, and the coral bleaches and may die. "
    "Reefs in lagoons, where the water is warm every summer, bleach later than those of the cool outer slopes.",
    "Divers map a reef by photographs along a line, from which the share of living coral is counted. "
    "Repeated every year at the same marks, the photographs show which species of coral grow and which retreat.",
)
HONEST = (
    "Storms break the branching corals, whose pieces may grow on as new colonies where they come to rest. "
    "Massive corals withstand the waves, so reefs on exposed coasts are made of them for the most part."
)
ALIEN = (
    "The quarterly invoice is payable within ten days; late payers are charged two per cent interest a month. "
    "Send the amount by bank transfer to the account of the new treasurer, and quote the number of your contract."
)


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    return make_instance(chunk={"max_tokens": 64})


def submit(instance: Instance, *sections: str) -> None:
    text = "# Coral reefs\n\n" + "\n\n".join(f"## Part {number}\n\n{one}" for number, one in enumerate(sections))
    document = {"id": "reefs", "text": text}
    request = DocumentsRequest.model_validate({"corpus": "docs", "documents": [document]})
    instance.service.add_documents(request)
    instance.works("chunk", "embed", "index")


def warned(instance: Instance) -> list[str]:
    query = Query(query="coral reef storms invoice interest", corpus="docs", strategy=Strategy.BM25, top_k=20)
    chunks = searched(query, instance.context)[0].chunks
    return [
        chunk.text for chunk in chunks if chunk.inspection is not None and chunk.inspection.verdict is Verdict.WARNED
    ]


def test_a_new_passage_on_another_topic_is_marked_and_stays_so(instance: Instance) -> None:
    submit(instance, *SECTIONS)
    assert warned(instance) == []
    submit(instance, *SECTIONS, ALIEN)
    assert [ALIEN in text for text in warned(instance)] == [True]
    submit(instance, *SECTIONS, ALIEN, HONEST)
    assert [ALIEN in text for text in warned(instance)] == [True]


def test_a_new_passage_on_the_document_s_topic_is_not_marked(instance: Instance) -> None:
    submit(instance, *SECTIONS)
    submit(instance, *SECTIONS, HONEST)
    assert warned(instance) == []
