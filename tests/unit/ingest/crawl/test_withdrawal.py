"""Which addresses a page speaks of that asks to leave the index, or is gone."""

from __future__ import annotations

import pytest

from sluice.contracts.document import document_id_for, snippet_id_for
from sluice.contracts.errors import NotFound, PolicyRefused, Unavailable
from sluice.ingest.crawl.crawled_page import NoIndex, PageGone, Withdrawal, withdrawal_in

ASKED, ELSEWHERE = "https://a.example/page", "https://b.example/page"


def test_the_address_that_was_asked_for_and_the_one_that_answered_are_spoken_of() -> None:
    assert withdrawal_in(NoIndex(ASKED, ELSEWHERE)) == Withdrawal("noindex", (ASKED, ELSEWHERE))
    assert withdrawal_in(PageGone(ASKED, ASKED, 404)) == Withdrawal("not_found", (ASKED,))
    assert withdrawal_in(PageGone(ASKED, ASKED, 410)) == Withdrawal("gone", (ASKED,))


def test_a_script_that_leads_to_another_site_speaks_for_its_own_page_alone() -> None:
    moved = "https://a.example/other"
    assert withdrawal_in(NoIndex(ASKED, ELSEWHERE, rendered=True)) == Withdrawal("noindex", (ASKED,))
    assert withdrawal_in(PageGone(ASKED, ELSEWHERE, 410, rendered=True)) == Withdrawal("gone", (ASKED,))
    assert withdrawal_in(NoIndex(ASKED, moved, rendered=True)) == Withdrawal("noindex", (ASKED, moved))


@pytest.mark.parametrize("error", [PolicyRefused("robots", "no"), NotFound("answers 400"), Unavailable("answers 500")])
def test_any_other_error_withdraws_nothing(error: Exception) -> None:
    assert withdrawal_in(error) is None


def test_the_page_goes_with_what_searches_showed_of_it() -> None:
    assert Withdrawal("gone", (ASKED,)).document_ids == (document_id_for(ASKED), snippet_id_for(ASKED))
