"""What a key may do: its role, its corpora, and what it learns of others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from starlette.testclient import TestClient

from sluice.index.folder import CorpusLayout
from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import ApiKeys
from tests.support.api_keys import bearer

OF_THE_INSTANCE = [
    ("GET", "/v1/stages"),
    ("POST", "/v1/stages/crawl/pause?why=because"),
    ("POST", "/v1/stages/crawl/resume"),
    ("GET", "/v1/hosts"),
    ("GET", "/v1/evaluation"),
    ("GET", "/metrics"),
]


@pytest.mark.parametrize(("method", "path"), OF_THE_INSTANCE)
def test_what_every_corpus_shares_needs_an_operator_of_all(http: TestClient, method: str, path: str) -> None:
    whole, some, agent = bearer(http, "operator"), bearer(http, "operator", "docs"), bearer(http, "agent")
    assert http.request(method, path, headers=whole).status_code == 200
    for headers in (some, agent):
        refused = http.request(method, path, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert http.get("/v1/dead-letters", headers=some).status_code == 200


def test_health_and_errors_name_no_corpus_that_the_caller_may_not_see(http: TestClient) -> None:
    context = http.app.state.instance.context  # type: ignore[attr-defined]
    for corpus in ("docs", "secret-plans"):
        CorpusLayout(context.settings.index_root, corpus).journal.mkdir(parents=True)
    some, whole = bearer(http, "operator", "docs", "empty"), bearer(http, "agent")
    assert "secret-plans" in http.get("/healthz", headers=whole).text
    assert "secret-plans" not in http.get("/healthz", headers=some).text
    assert "secret-plans" not in http.get("/healthz").text
    refused = http.get("/v1/runs", params={"corpus": "secret-plans"}, headers=some)
    never = http.get("/v1/runs", params={"corpus": "never-was"}, headers=some)
    assert refused.status_code == never.status_code == 403
    assert refused.json()["message"].replace("secret-plans", "never-was") == never.json()["message"]
    with pytest.raises(Exception, match="empty") as told:
        context.readers.existing("empty")
    assert "secret-plans" not in str(told.value)


def test_revoking_the_last_key_does_not_open_the_interface(http: TestClient, ledger: Ledger) -> None:
    assert http.get("/v1/runs").status_code == 200
    bearer(http, "agent")
    assert http.get("/v1/runs").status_code == 401
    ledger.keys.revoke(ledger.keys.list()[0].id)
    http.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined]
    assert http.get("/v1/runs").status_code == 401


def test_a_setting_opens_it_again_or_asks_for_a_key_from_the_beginning(serve: Callable[..., TestClient]) -> None:
    assert serve(require_api_key=True).get("/v1/runs").status_code == 401
    optional = serve(require_api_key=False)
    bearer(optional, "agent")
    assert optional.get("/v1/runs").status_code == 401
    with closing(optional.app.state.instance.context.ledger) as ledger:  # type: ignore[attr-defined]
        ledger.keys.revoke(ledger.keys.list()[0].id)
        optional.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined]
        assert optional.get("/v1/runs").status_code == 200
