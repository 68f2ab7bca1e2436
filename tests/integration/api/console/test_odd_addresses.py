"""Whatever stands in an address or a form of these pages, the answer is a page and no error of ours."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.support.console import token_in
from tests.support.console_visitor import HOSTILE, Visitor, harmless

ODD = (
    *HOSTILE,
    "UPPER",
    "two words",
    "%00",
    "\x00",
    "\ud7ff\U0010ffff",
    "a" * 3_000,
    "../../etc/passwd",
    "..",
    "%2e%2e",
    "-1",
    "ß",
)
PLACES = (
    "/crawl/{}",
    "/crawl/example.org?url={}",
    "/crawl?host={}",
    "/crawl?days={}",
    "/corpora/{}",
    "/corpora?before={}",
    "/corpora/default?q={}",
    "/corpora/default?where={}",
    "/corpora/default?order={}",
    "/corpora/default?before={}",
    "/gate/models/{}",
    "/gate/evaluation?by={}",
    "/memory/{}",
    "/memory/x?feature={}",
    "/graph/{}",
    "/graph/x?corpus={}",
    "/graph?corpus=default&node={}",
    "/quarantine/{}",
    "/quarantine/{}/text",
    "/quarantine?rule={}",
    "/quarantine?corpus={}",
    "/quarantine?before={}",
    "/actions?operator={}",
    "/actions?before={}",
    "/config?q={}",
    "/figures?hours={}",
)
FORMS = (
    ("/crawl/try", {"url", "corpus"}),
    ("/crawl/example.org/rest", {"minutes", "why"}),
    ("/corpora/default/verify", {"generation"}),
    ("/corpora/default/serve", {"generation", "note"}),
    ("/gate/flags/rerank", {"action", "note"}),
    ("/gate/defences/lift", {"name", "profile", "corpus"}),
    ("/gate/models/m/stop", {"note"}),
    ("/learnings/lrn_0/approve", {"project", "feature"}),
    ("/learnings/lrn_0/keep", {"project", "feature", "over"}),
    ("/quarantine/qtn_0/release", {"note"}),
    ("/keys/key_0/change", {"expires_at", "requests_per_minute"}),
)


@pytest.mark.parametrize("place", PLACES)
def test_an_odd_address_gets_a_page(visitor: Visitor, place: str) -> None:
    for odd in ODD:
        shown = visitor.http.get(f"/console{place.format(quote(odd, safe=''))}")
        assert shown.status_code < 500, (place, odd, shown.text[-800:])
        harmless(shown.text)


@pytest.mark.parametrize(("action", "fields"), FORMS)
def test_an_odd_form_gets_a_page(visitor: Visitor, action: str, fields: set[str]) -> None:
    token = token_in(visitor.get("/keys"))
    for odd in ODD:
        sent = dict.fromkeys(fields, odd)
        shown = visitor.http.post(f"/console{action}", data={"token": token, "back": "/console/keys", **sent})
        assert shown.status_code < 500, (action, odd, shown.text[-800:])
        harmless(shown.text)
