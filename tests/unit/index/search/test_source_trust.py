"""Trust: where from, whether intact, who, how old."""

from __future__ import annotations

from datetime import timedelta

import pytest

from contracts.document import ChunkedDocument
from index.search.domains import is_under, parse_host
from index.search.source_trust import SourceTrust, decay_by_age


def _trust(trust: SourceTrust, document: ChunkedDocument, make) -> float:
    return trust.value(document.url, document.provenance, document.chunks[0], make.now)


def test_a_file_of_today_is_fully_trusted(make) -> None:
    assert _trust(SourceTrust(), make.document("a", "text"), make) == pytest.approx(1.0)


def test_a_listed_domain_and_author_count_in_full(make) -> None:
    page = make.document("a", "text", url="https://docs.good.org/x", source="crawl", author="Ada")
    assert _trust(SourceTrust(("good.org",), ("ada",)), page, make) == pytest.approx(1.0)


def test_an_unlisted_page_is_undecided_without_lists_and_distrusted_with_them(make) -> None:
    page = make.document("a", "text", url="https://notgood.org/x", source="crawl")
    assert _trust(SourceTrust(), page, make) == pytest.approx(0.4 * 0.5 + 0.3 + 0.3 * 0.5)
    assert _trust(SourceTrust(("good.org",), ("ada",)), page, make) == pytest.approx(0.3)


def test_a_text_that_does_not_match_its_checksum_loses_its_integrity(make) -> None:
    document = make.document("a", "text")
    forged = document.chunks[0].model_copy(update={"text": "forged"})
    assert SourceTrust().value(None, document.provenance, forged, make.now) == pytest.approx(0.7)


@pytest.mark.parametrize(("days", "decay"), [(0, 1.0), (182.5, 0.85), (365, 0.7), (4_000, 0.7), (-5, 1.0)])
def test_trust_decays_over_a_year_to_seven_tenths(make, days: float, decay: float) -> None:
    document = make.document("a", "text")
    later = make.now + timedelta(days=days)
    assert decay_by_age(document.provenance, later) == pytest.approx(decay)
    assert SourceTrust().value(None, document.provenance, document.chunks[0], later) == pytest.approx(decay)


def test_a_domain_covers_what_is_below_it_and_nothing_else() -> None:
    assert is_under("docs.good.org", ["Good.org"])
    assert not is_under("notgood.org", ["good.org"])
    assert not is_under(None, ["good.org"])
    assert parse_host("https://User@Docs.Good.org:8080/x") == "docs.good.org"
    assert parse_host("http://[broken") is None
