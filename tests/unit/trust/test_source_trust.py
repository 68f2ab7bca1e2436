"""The score of a source: twenty cases with the score that each should have, as in docs/decisions/0016-source-trust.md."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from sluice.contracts.document import Provenance, is_under, parse_host
from sluice.contracts.learning.passages import PassageMark
from sluice.contracts.trust import TrustFactors, TrustScore
from sluice.trust.source_trust import SourceTrust, parts_of, refusal_to_replace, time_freshness, weigh_marks

NOW = datetime(2025, 10, 8, tzinfo=UTC)
LISTS = SourceTrust(
    ("trusted.com",), {"trusted.com": ["Ada"], "blog.example": ["Bob"]}, frozenset({"key_own"}), frozenset({"release"})
)
NO_LISTS = SourceTrust()
TRUSTED, UNKNOWN = "https://docs.trusted.com/a", "https://unknown.com/a"
YEAR, HALF_YEAR = timedelta(days=365), timedelta(days=182.5)
SAMPLE_1, SAMPLE_2 = NOW - datetime(2025, 1, 15, tzinfo=UTC), NOW - datetime(2024, 6, 10, tzinfo=UTC)


def _score(scorer: SourceTrust, source: str, url: str | None, age: timedelta = timedelta(), **facts: object) -> float:
    provenance = Provenance.model_validate({"source": source, "fetched_at": NOW - age, **facts})
    return scorer.score(url, provenance, "c", NOW).score


@pytest.mark.parametrize(
    ("should", "scorer", "source", "url", "age", "facts"),
    [
        # Crawled, while no domain is listed: nobody has been judged.
        (0.82, NO_LISTS, "crawl", UNKNOWN, timedelta(), {}),
        (0.70, NO_LISTS, "crawl", UNKNOWN, HALF_YEAR, {}),
        (0.57, NO_LISTS, "crawl", UNKNOWN, YEAR, {}),
        # Crawled, with a list: the RFC's second row is unlisted, unsigned, of June 2024.
        (1.00, LISTS, "crawl", TRUSTED, timedelta(), {}),
        (0.70, LISTS, "crawl", TRUSTED, 3 * YEAR, {}),
        (0.64, LISTS, "crawl", UNKNOWN, timedelta(), {}),
        (0.45, LISTS, "crawl", UNKNOWN, SAMPLE_2, {}),
        # An author counts where he is known, and nowhere else.
        (1.00, LISTS, "crawl", TRUSTED, timedelta(), {"author": " ada "}),
        (0.85, LISTS, "crawl", TRUSTED, timedelta(), {"author": "Mallory"}),
        (0.79, LISTS, "crawl", "https://blog.example/a", timedelta(), {"author": "Bob"}),
        (0.64, LISTS, "crawl", UNKNOWN, timedelta(), {"author": "Ada"}),
        # A provider's word for a page is worth less than the page.
        (0.70, NO_LISTS, "search", UNKNOWN, timedelta(), {}),
        (0.90, LISTS, "search", TRUSTED, timedelta(), {}),
        (0.50, LISTS, "search", UNKNOWN, timedelta(), {}),
        # What was submitted is its sender's word, whatever it claims to be.
        (0.40, LISTS, "submission", TRUSTED, timedelta(), {"author": "Ada"}),
        # A signature speaks for it: the RFC's first row is signed, of January 2025. One of a key taken away does not.
        (0.78, LISTS, "submission", TRUSTED, SAMPLE_1, {"signed_by": "release"}),
        (0.40, LISTS, "submission", TRUSTED, timedelta(), {"signed_by": "gone"}),
        (0.95, LISTS, "submission", TRUSTED, timedelta(), {"submitted_by": "key_own"}),
        # What the operator submits passes gate I at any age; his word for a page is no clearer than the page.
        (0.90, NO_LISTS, "submission", UNKNOWN, timedelta(), {"by_operator": True}),
        (0.63, NO_LISTS, "submission", None, 3 * YEAR, {"by_operator": True}),
        # A file is the operator's own.
        (0.95, LISTS, "file", None, timedelta(), {}),
        (1.00, LISTS, "file", None, timedelta(), {"signed_by": "release"}),
    ],
)
def test_each_case_has_the_score_that_it_should_have(should, scorer, source, url, age, facts) -> None:
    assert _score(scorer, source, url, age, **facts) == pytest.approx(should, abs=0.006)


@pytest.mark.parametrize("age_days", [30, 120, 180, 300])
def test_an_ordinary_page_of_some_months_passes_gate_i(age_days) -> None:
    age = timedelta(days=age_days)
    assert _score(NO_LISTS, "crawl", UNKNOWN, age) >= 0.6
    assert _score(LISTS, "crawl", TRUSTED, age) >= 0.6


def test_a_submission_that_nothing_speaks_for_is_below_the_threshold_whatever_it_claims() -> None:
    claims = {"author": "Ada", "submitted_by": "key_other"}
    assert max(_score(scorer, "submission", TRUSTED, **claims) for scorer in (LISTS, NO_LISTS)) < 0.6


def test_a_score_tells_its_factors_and_leaves_out_what_cannot_apply() -> None:
    provenance = Provenance(source="crawl", fetched_at=NOW - HALF_YEAR)
    listed = LISTS.score(TRUSTED, provenance, "c", NOW)
    assert listed.model_dump(mode="json") == {
        "chunkId": "c",
        "score": pytest.approx(0.85),
        "factors": {
            "domainTrust": 1.0,
            "signatureValid": None,
            "timeFreshness": pytest.approx(0.85),
            "authorReputation": None,
        },
        "origin": "crawled",
    }
    assert TrustScore.model_validate_json(listed.model_dump_json()) == listed
    submitted = LISTS.score(TRUSTED, provenance.model_copy(update={"source": "submission"}), "c", NOW)
    assert submitted.factors.domain_trust is None


@pytest.mark.parametrize(("days", "freshness"), [(0, 1.0), (182.5, 0.85), (365, 0.7), (4_000, 0.7), (-5, 1.0)])
def test_freshness_falls_over_a_year_to_seven_tenths(days: float, freshness: float) -> None:
    assert time_freshness(Provenance(source="file", fetched_at=NOW - timedelta(days=days)), NOW) == pytest.approx(
        freshness
    )


def test_a_date_of_publication_after_the_fetch_is_none() -> None:
    fetched = NOW - YEAR
    ahead = Provenance(source="crawl", fetched_at=fetched, published_at=NOW + YEAR)
    assert time_freshness(ahead, NOW) == pytest.approx(0.7)
    before = Provenance(source="crawl", fetched_at=NOW, published_at=fetched)
    assert time_freshness(before, NOW) == pytest.approx(0.7)


def test_a_domain_covers_what_is_below_it_and_nothing_else() -> None:
    assert is_under("docs.good.org", ["Good.org"])
    assert not is_under("notgood.org", ["good.org"])
    assert not is_under(None, ["good.org"])
    assert parse_host("https://User@Docs.Good.org:8080/x") == "docs.good.org"
    assert parse_host("http://[broken") is None


def test_a_tenant_does_not_replace_what_the_operator_submitted_without_a_key() -> None:
    own = Provenance(source="submission", fetched_at=NOW, by_operator=True)
    tenant = Provenance(source="submission", fetched_at=NOW, submitted_by="key_a")
    refusal = refusal_to_replace(own, tenant)
    assert refusal is not None
    assert refusal.reason == "other_sender"
    assert refusal_to_replace(own, own) is None
    assert refusal_to_replace(tenant, own) is None


def _mark(run: int, owner: str = "key_a", standing: str = "asker") -> PassageMark:
    return PassageMark(f"run_{run}", "chk", owner, standing, "doc", None, "wrong")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("doubt", "marks"),
    [
        (0.1, [_mark(1)]),
        (0.2, [_mark(run) for run in range(2)]),
        (0.2, [_mark(run) for run in range(50)]),
        (0.3, [_mark(1), _mark(2), _mark(3, "key_b")]),
        (0.4, [_mark(run, f"key_{run}") for run in range(50)]),
        (0.2, [_mark(1, "key_op", "operator")]),
        (0.4, [_mark(1, "key_op", "operator"), _mark(2, "key_op", "operator")]),
        (0.1, [_mark(1, "key_b", "other")]),
        (0.1, [_mark(1), _mark(1, "key_b", "other"), _mark(1, "key_c", "other")]),
    ],
)
def test_no_key_alone_takes_more_than_a_fifth_of_a_passage_and_all_no_more_than_two_fifths(
    doubt: float, marks: list[PassageMark]
) -> None:
    assert weigh_marks(marks) == {"chk": pytest.approx(doubt)}
    assert weigh_marks(reversed(marks)) == weigh_marks(marks)


def test_a_score_is_the_sum_of_its_parts_whatever_it_rests_on() -> None:
    """Of every origin, with and without each kind of evidence, a believed sender, an old text and doubt."""
    scorer = SourceTrust(domains=["example.org"], authors={"example.org": ["Ann"]}, submitters=["key_a"], keys=["k1"])
    sources = ("crawl", "search", "submission", "file")
    for source, url, author, sender, signed, days, doubt in product(
        sources,
        ("https://example.org/a", "https://elsewhere.example/a", None),
        ("Ann", "Bob", None),
        ("key_a", "key_b", None),
        ("k1", "k2", None),
        (0, 100, 900),
        (0.0, 0.1, 0.4),
    ):
        for by_operator in (False, True) if source == "submission" else (False,):
            fetched = NOW - timedelta(days=days)
            told = {"author": author, "submitted_by": sender, "signed_by": signed, "by_operator": by_operator}
            provenance = Provenance(source=source, fetched_at=fetched, **told)  # type: ignore[arg-type]
            score = scorer.score(url, provenance, "c", NOW)
            score = score.lowered(doubt) if doubt else score
            parts = parts_of(score)
            assert abs(sum(part.adds or 0.0 for part in parts) - score.score) < 0.005
            assert "other settings" not in {part.name for part in parts}
    of_other_rules = TrustScore(chunk_id="c", score=0.99, factors=TrustFactors(domain_trust=0.0), origin="searched")
    assert [part.name for part in parts_of(of_other_rules)][-1] == "other settings"
    assert sum(part.adds or 0.0 for part in parts_of(of_other_rules)) == pytest.approx(0.99)
