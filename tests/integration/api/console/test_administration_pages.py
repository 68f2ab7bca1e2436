"""The pages of actions and keys: who did what, and who may send requests."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from sluice.api.console import administration
from sluice.contracts.operations.actions import ActionPage
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.tables import storable
from sluice.workers.service.callers import ApiKeys
from sluice.workers.settings import load_settings
from tests.support.console import signed_in, token_in
from tests.support.console_visitor import HOSTILE, Visitor, harmless, said


@pytest.fixture
def acted(visitor: Visitor, ledger: Ledger) -> Visitor:
    for number, one in enumerate(HOSTILE):
        ledger.console.record(one, f"act_{number % 2}", [f"thing:{number}"], note=one)
    return visitor


def test_actions_are_listed_filtered_and_come_in_parts(acted: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    page = acted.get("/actions")
    harmless(page)
    assert page.index("thing:5") < page.index("thing:0"), "the latest first"
    assert "thing:1" not in acted.get("/actions", action="act_0")
    assert "thing:1" not in acted.get("/actions", operator=HOSTILE[0])
    assert "thing:1" in acted.get("/actions", subject="thing:1")
    monkeypatch.setattr(administration, "PART", 4)
    first = acted.get("/actions")
    assert ("thing:2" in first, "thing:1" in first) == (True, False)
    [address] = re.findall(r'rel="next" href="/console(/actions\?[^"]*)"', first)
    assert "thing:1" in acted.get(address)
    acted.get("/actions", 422, before="1 OR 1")
    acted.get("/actions", 422, before="9" * 40)


def test_the_same_stands_under_v1(acted: Visitor) -> None:
    part = acted.http.get("/v1/actions", params={"limit": 4}).json()
    assert [one["subject"] for one in part["data"]] == [f"thing:{number}" for number in (5, 4, 3, 2)]
    assert part["data"][0]["note"] == storable(HOSTILE[5])
    rest = acted.http.get("/v1/actions", params={"limit": 4, "cursor": part["next_cursor"]}).json()
    assert [one["subject"] for one in rest["data"]] == ["thing:1", "thing:0"]
    assert rest["next_cursor"] is None


def test_actions_are_read_by_an_index(ledger: Ledger) -> None:
    wanted = {
        "operator": "operator_actions_of_operator",
        "action": "operator_actions_of_action",
        "subject": "ix_operator_actions_subject",
    }
    with closing(sqlite3.connect(str(ledger.database.url.database))) as connection:
        for name, index in wanted.items():
            query = f"EXPLAIN QUERY PLAN SELECT * FROM operator_actions WHERE {name} = ? AND seq < 9 ORDER BY seq DESC"
            plan = " ".join(row[3] for row in connection.execute(query, ("x",)))
            assert index in plan
            assert "TEMP B-TREE" not in plan, "nothing is sorted"
    assert ledger.console.actions(ActionPage()) == []


def test_a_key_is_made_shown_once_changed_and_revoked(visitor: Visitor, ledger: Ledger) -> None:
    page = visitor.send("/keys", "/keys", 201, name=HOSTILE[0], role="agent", corpora="docs, pets", expires_at="")
    harmless(page)
    [key] = re.findall(r'id="secret">(slk_[\w-]+)<', page)
    assert "From now on every request needs a key" in page
    [made] = ApiKeys(ledger).list()
    assert (made.name, made.corpora, made.role) == (HOSTILE[0], ("docs", "pets"), "agent")
    visitor.get("/keys", 401)
    keys: ApiKeys = visitor.http.app.state.instance.keys  # type: ignore[attr-defined]
    _, own = keys.create("ops", "operator", ())
    signed_in(visitor.http, own)
    listed = visitor.get("/keys")
    harmless(listed)
    assert key not in listed
    change = f"/keys/{made.id}/change"
    visitor.send("/keys", change, expires_at="2099-01-31 12:00", requests_per_minute="7")
    changed = ApiKeys(ledger).one(made.id)
    assert changed.expires_at is not None
    assert (changed.expires_at.isoformat(), changed.requests_per_minute) == ("2099-01-31T12:00:00+00:00", 7)
    assert "expires_at: " in visitor.send("/keys", change, 422, expires_at="soon", requests_per_minute="")
    assert "requests_per_minute: " in visitor.send("/keys", change, 422, expires_at="", requests_per_minute="-1")
    assert "is revoked for good" in said(visitor.send("/keys", f"/keys/{made.id}/revoke"))
    assert ApiKeys(ledger).one(made.id).revoked_at is not None
    done = [one.action for one in ledger.console.actions(ActionPage(subject=f"key:{made.id}"))]
    assert len(done) == 3, done


def test_keys_come_in_parts(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: ApiKeys = visitor.http.app.state.instance.keys  # type: ignore[attr-defined]
    made = [keys.create(f"name-{number}", "operator", ()) for number in range(3)]
    signed_in(visitor.http, made[0][1])
    monkeypatch.setattr(administration, "KEYS", 2)
    first = visitor.get("/keys")
    assert [f"name-{number}<" in first for number in range(3)] == [False, True, True]
    assert "name-0<" in visitor.get("/keys", before=made[1][0])


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "", "role": "agent"}, "name"),
        ({"name": "x", "role": "king"}, "role"),
        ({"name": "x", "role": "agent", "corpora": "Docs!"}, "corpora"),
        ({"name": "x", "role": "agent", "expires_at": "2001-01-01"}, "expires_at"),
    ],
)
def test_a_key_that_cannot_be_is_not_made(visitor: Visitor, ledger: Ledger, fields: dict[str, str], field: str) -> None:
    assert f'role="alert">{field}: ' in visitor.send("/keys", "/keys", 422, **fields)
    assert ApiKeys(ledger).list() == []


@pytest.mark.parametrize(("role", "corpora"), [("agent", ()), ("operator", ("docs",))])
def test_only_an_operator_of_all_corpora_sees_them(
    signed: Callable[..., Visitor], role: str, corpora: tuple[str, ...]
) -> None:
    other = signed(role, *corpora)
    for path in ("/actions", "/keys", "/config"):
        other.get(path, 403)
    token = token_in(other.get("/runs"))
    assert other.post("/keys", token=token, name="x", role="operator").status_code == 403
    key = {"Authorization": "Bearer x"}
    assert TestClient(other.http.app, base_url="http://127.0.0.1").get("/v1/actions", headers=key).status_code == 401


def test_settings_are_shown_with_their_places_and_no_secret(
    serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sluice.toml").write_text('[crawl]\nmax_pages = 3\ncontact = "</td><script>pwned=1</script>"\n')
    monkeypatch.setenv("SLUICE_SEARCH__BRAVE_API_KEY", "s3cret-key")
    search = load_settings().search
    http = serve(crawl=load_settings().crawl, search=search)
    http.base_url = "https://127.0.0.1"  # type: ignore[assignment]
    visitor = Visitor(http)
    page = visitor.get("/config")
    harmless(page)
    assert "s3cret" not in page
    assert f"{tmp_path / 'sluice.toml'}:2" in page
    assert "SLUICE_SEARCH__BRAVE_API_KEY" in page
    changed = visitor.get("/config", changed=True, q="crawl.")
    assert ("crawl.max_pages" in changed, "crawl.render" in changed) == (True, False)
    shown = {one["setting"]: one for one in http.get("/v1/config").json()["data"]}
    assert shown["search.brave_api_key"] | {"line": None} == {
        "setting": "search.brave_api_key",
        "value": "set",
        "source": "SLUICE_SEARCH__BRAVE_API_KEY",
        "line": None,
    }
    assert shown["crawl.max_pages"]["line"] == 2
