"""What the marketing profile finds in an answer, and what no other profile pays for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sluice.contracts.api import DocumentsRequest, GateRequest
from sluice.contracts.gate import CoverageProbed, GateDecided, GateRequested
from sluice.contracts.index import Answer
from sluice.gate.decide import explain
from sluice.gate.profile import choose_profile
from sluice.otel import metrics
from tests.support.in_process import Instance, MakeInstance

STAGES = ("chunk", "embed", "index", "index")
NOW = datetime.now(UTC)
PAGES = (
    ("https://www.reuters.com/a", "Acme Cola sales rise", "Acme Cola is a wonderful success. Critics love the great new taste of the zero drink.", 2),
    ("https://www.instagram.com/p/1", "My morning", "Loving my Acme Cola zero drink! Use my code FIZZ20 at checkout.", 3),
    ("https://www.instagram.com/p/2", "Partner post", "The Acme Cola zero drink is my favourite taste of summer. #ad", 4),
    ("https://acmecola.com/zero", "Acme Cola Zero", "Acme Cola zero drink is clinically proven to reduce tiredness. Results are guaranteed.", 30),
    ("https://www.theverge.com/b", "Globex answers", "Globex hates the zero drink of Acme Cola and calls it a terrible failure.", 1),
)  # fmt: skip


def adds(instance: Instance) -> None:
    documents = [
        {"url": url, "title": title, "text": text, "published_at": (NOW - timedelta(days=days)).isoformat()}
        for url, title, text, days in PAGES
    ]
    instance.service.add_documents(DocumentsRequest.model_validate({"documents": documents, "corpus": "docs"}))
    instance.works(*STAGES)


def asks(instance: Instance, profile: str, query: str = "How does Acme Cola zero drink compare with Globex?") -> str:
    request = {"query": query, "corpus": "docs", "profile": profile, "plan": "retrieve", "confidence_floor": 0}
    run = instance.service.ask(GateRequest.model_validate(request))
    instance.works("query", "gate", "query")
    return run.run_id


def answer_of(instance: Instance, run_id: str) -> Answer:
    answer = instance.context.ledger.run(run_id).answer
    assert answer
    return answer


def test_a_marketing_answer_tells_tone_disclosures_claims_voices_and_channels(make_instance: MakeInstance) -> None:
    instance = make_instance()
    adds(instance)
    answer = answer_of(instance, asks(instance, "marketing"))
    found = {one.url: one.insights for one in answer.citations if one.insights}
    assert len(found) == len(PAGES)
    news, code, marked, owned, rival = (found[url] for url, *_ in PAGES)
    assert (news.channel, news.sentiment and news.sentiment.label) == ("news", "positive")
    assert (code.channel, code.disclosure and code.disclosure.status) == ("social", "missing")
    assert marked.disclosure
    assert marked.disclosure.status == "marked"
    assert (owned.channel, {claim.rule for claim in owned.claims}) == ("owned", {"proven", "guarantee"})
    assert rival.sentiment
    assert rival.sentiment.label == "negative"
    assert answer.insights
    assert answer.insights.channels
    assert answer.insights.channels.passages == {"news": 2, "owned": 1, "social": 2}
    voices = {one.brand: (one.passages, one.share) for one in answer.insights.corpus_voices}
    assert voices == {"Acme Cola": (5, 0.8333), "Globex": (1, 0.1667)}


def test_another_profile_computes_and_records_none_of_it(make_instance: MakeInstance) -> None:
    instance = make_instance()
    adds(instance)
    before = metrics.negotiate_metrics()[0]
    run_id = asks(instance, "default")
    answer = answer_of(instance, run_id)
    assert answer.citations
    assert "insights" not in answer.model_dump_json()
    probed = instance.context.ledger.events_of_kind(run_id, CoverageProbed.kind)[0].body_as(CoverageProbed)
    assert "domain" not in probed.model_dump_json()
    wanted = b"sluice_cited_sentiment_total{"
    assert [line for line in metrics.negotiate_metrics()[0].splitlines() if line.startswith(wanted)] == [
        line for line in before.splitlines() if line.startswith(wanted)
    ]


def test_a_spike_of_publications_is_measured_weighed_and_replayed_to_the_byte(make_instance: MakeInstance) -> None:
    instance = make_instance()
    adds(instance)
    run_id = asks(instance, "marketing")
    ledger = instance.context.ledger
    decision = ledger.events_of_kind(run_id, GateDecided.kind)[0].body_as(GateDecided)
    velocity = {one.feature: one for one in decision.contributions}["mention_velocity"]
    assert velocity.raw == "Acme Cola: 0.57 documents a day in 7 days, 0.04 in the 28 before"
    assert (velocity.value, velocity.contribution) == (1.0, 0.46)
    request = ledger.events_of_kind(run_id, GateRequested.kind)[0].body_as(GateRequested)
    probed = ledger.events_of_kind(run_id, CoverageProbed.kind)[0].body_as(CoverageProbed)
    again = explain(request, probed, decision, choose_profile(instance.context.profiles, "marketing"))
    assert again.model_dump_json() == decision.model_dump_json()
