"""The overview, the list of runs and one run: what they show, to whom, and what can be done from them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from sluice.contracts.errors import Unavailable
from sluice.ledger.audit import record
from sluice.ledger.ledger import Ledger
from sluice.ledger.retention import Pruning
from sluice.ledger.schema.tables import operator_actions, stage_minutes
from tests.support.console import signed_in, token_in, troubled_run
from tests.support.in_process import MakeInstance
from tests.support.ledger_story import Clock

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def ask(browser: TestClient, query: str = "who?", corpus: str = "docs") -> str:
    asked = browser.post("/v1/gate", json={"query": query, "corpus": corpus, "create_corpus": True})
    assert asked.status_code == 202, asked.text
    run_id: str = asked.json()["run_id"]
    return run_id


def actions(ledger: Ledger, action: str) -> list[tuple[str, str]]:
    rows = ledger.database.read(select(operator_actions).where(operator_actions.c.action == action)).all()
    return [(row.operator, row.subject) for row in rows]


def test_the_overview_shows_stages_with_their_last_hour_and_what_is_not_well(
    browser: TestClient, ledger: Ledger
) -> None:
    ask(browser, HOSTILE)
    sums = {"entered": 3, "handled": 2, "failed": 1, "parked": 1, "wait_ms": 400, "work_ms": 80, "longest_wait_ms": 300}
    with ledger.database.writing() as connection:
        connection.insert(stage_minutes, {"stage": "crawl", "minute": int(time.time() // 60) - 1, **sums})
        record(connection, time.time(), "ana", "backup", ["instance"], "/backups/monday.tar")
    shown = browser.get("/console").text
    row = re.search(r'<tr id="stage-crawl">.*?</tr>', shown, re.DOTALL)[0]  # type: ignore[index]
    assert re.findall(r'<td class="n[^"]*">([^<]*)</td>', row) == [
        "0",
        "0",
        "0",
        "–",
        "3",
        "2",
        "2",
        "100 ms",
        "0 of 4",
    ]
    assert "<polyline" in row
    assert "no worker for" in shown
    assert "/backups/monday.tar" in shown
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert" in shown
    assert "No run is open" not in shown


def test_an_empty_instance_says_what_would_fill_it(browser: TestClient) -> None:
    assert "sluice ask" in browser.get("/console").text
    assert "sluice ingest" in browser.get("/console").text
    assert "There is no run." in browser.get("/console/runs").text
    assert "No run matches." in browser.get("/console/runs?q=nothing").text


def test_a_pool_is_resized_and_a_wrong_number_is_told_by_its_field(browser: TestClient, ledger: Ledger) -> None:
    token = token_in(browser.get("/console").text)
    sent = {"token": token, "back": "/console", "form_id": "scale-crawl"}
    done = browser.post("/console/stages/crawl/scale", data={**sent, "workers": "7"})
    assert "crawl: 7 wanted" in done.text
    assert ledger.pool_sizes.all() == {"crawl": 7}
    for wrong in ("-1", "65", "many", "1.5"):
        again = browser.post("/console/stages/crawl/scale", data={**sent, "workers": wrong})
        assert again.status_code == 422
        assert f'value="{wrong}"' in again.text
        assert 'id="scale-crawl-wrong" role="alert">workers:' in again.text
    assert browser.post("/console/stages/nothing/scale", data={**sent, "workers": "1"}).status_code == 422
    browser.post("/console/stages/crawl/scale", data={**sent, "workers": ""})
    assert ledger.pool_sizes.all() == {}
    assert actions(ledger, "scale") == [("local", "stage:crawl")] * 2


def test_runs_are_listed_by_tab_and_filter_and_in_parts(browser: TestClient, ledger: Ledger) -> None:
    made = [ask(browser, f"question {number} {HOSTILE}") for number in range(53)]
    ledger.cancel(made[0])
    listed = browser.get("/console/runs")
    ids = re.findall(r'<th scope="row" class="mono"><a href="/console/runs/(run_\w+)"', listed.text)
    assert ids == made[:2:-1]
    assert "<script>alert" not in listed.text
    assert "onerror=alert(1)&gt;" in listed.text
    [after] = re.findall(r'rel="next" href="([^"]+)"', listed.text)
    rest = browser.get(after.replace("&amp;", "&")).text
    assert re.findall(r'<th scope="row" class="mono"><a href="/console/runs/(run_\w+)"', rest) == made[2::-1]
    assert 'rel="next"' not in rest
    assert made[0] not in browser.get("/console/runs?tab=open").text
    assert made[51] in browser.get("/console/runs?tab=open&q=question+51").text
    assert made[7] in browser.get(f"/console/runs?q={made[7][:20]}").text
    short = browser.get("/console/runs?q=1")
    assert 'id="q-wrong" role="alert"' in short.text
    assert "No run matches." in browser.get("/console/runs?tab=retrying").text
    assert "No run matches." in browser.get("/console/runs?tab=failed&corpus=docs&kind=gate&owner=local").text
    assert browser.get("/console/runs?kind=nothing").status_code == 422
    assert str(browser.get(f"/console/runs?q={made[5]}").url).endswith(f"/console/runs/{made[5]}")


def test_chosen_runs_are_cancelled_and_recorded(browser: TestClient, ledger: Ledger) -> None:
    made = [ask(browser) for _ in range(3)]
    token = token_in(browser.get("/console/runs").text)
    sent = {"token": token, "back": "/console/runs?tab=open", "form_id": "cancel"}
    done = browser.post("/console/runs/cancel", data={**sent, "run": made[:2]})
    assert "2 cancelled" in done.text
    assert [ledger.status_of(one) for one in made] == ["cancelled", "cancelled", "open"]
    assert actions(ledger, "cancel") == [("local", f"run:{one}") for one in made[:2]]
    none = browser.post("/console/runs/cancel", data=sent)
    assert none.status_code == 422
    assert "choose at least one" in none.text


def test_newer_runs_are_counted_and_never_jump_in(browser: TestClient) -> None:
    first = ask(browser)
    page = browser.get("/console/runs").text
    [address] = re.findall(r'hx-sse:connect="([^"]+)"', page)
    assert f"after={first}" in address
    ask(browser)
    ask(browser)
    with browser.stream("GET", address.replace("&amp;", "&")) as response:
        told = next(line for line in response.iter_lines() if "newer" in line)
    assert ">2 newer</a>" in told


@pytest.fixture
def answered(browser: TestClient, make_instance: MakeInstance) -> Iterator[str]:
    """A run that cites, of an instance whose stages have worked."""
    instance = make_instance()
    instance.adds(*(f"The lock keeper opens gate {n} at {n} in the morning, and writes it down." for n in range(1, 12)))
    instance.works("chunk", "embed", "index")
    run_id = browser.post("/v1/gate", json={"query": "When does the lock keeper open gate 7?"}).json()["run_id"]
    instance.works("query", "gate", "query")
    return run_id


def test_a_run_shows_where_its_time_went_what_was_decided_and_what_it_cites(
    browser: TestClient, ledger: Ledger, answered: str
) -> None:
    shown = browser.get(f"/console/runs/{answered}").text
    assert re.search(r'id="sum-line"[^>]*>[\d.]+ s = ', shown)
    assert len(re.findall(r'<rect class="(?:waits|works)"', shown)) > 4
    assert shown.count("style=") == 0
    assert "search and crawl from" in shown
    assert f'href="/console/runs/{answered}/evidence/1">[1]</a>' in shown
    assert "hx-sse:connect" not in shown or ledger.run(answered).open_events  # what is over is not followed
    for bar in re.findall(r'<rect class="\w+" x="([\d.]+)%" width="([\d.]+)%"', shown):
        assert 0 <= float(bar[0]) <= 100
        assert 0 < float(bar[1]) <= 100


def test_a_waterfall_names_each_wait_and_hides_no_retry(browser: TestClient, ledger: Ledger) -> None:
    with Ledger(str(ledger.database.url), clock=(clock := Clock(time.time() - 60))) as telling:
        run_id = troubled_run(telling, clock)
    shown = browser.get(f"/console/runs/{run_id}").text
    rows = re.findall(r"<tr[^>]*>\s*<th scope=\"row\" class=\"depth.*?</tr>", shown, re.DOTALL)
    words = [re.search(r'class="doing (\w+)">', row)[1] for row in rows]  # type: ignore[index]
    assert {"waits", "failed", "backs_off", "died", "works"} <= set(words)
    assert all(f'<rect class="{word}"' in row for word, row in zip(words, rows, strict=True))
    assert "stage paused by ana: upgrade &lt;b&gt;" in shown
    assert "HTTP 503 &lt;script&gt;" in shown
    assert "crawl-2" in shown
    assert "× 6 <small>each" in shown  # steps alike are one row
    assert "Cut from the picture" in shown
    assert "(stage paused by ana: upgrade" in re.search(r'id="sum-line"[^>]*>([^<]*)', shown)[1]  # type: ignore[index]


def test_feedback_is_given_once_and_wrong_feedback_is_told(browser: TestClient, ledger: Ledger, answered: str) -> None:
    path = f"/console/runs/{answered}"
    sent = {"token": token_in(browser.get(path).text), "back": path, "form_id": "feedback"}
    assert "is recorded" in browser.post(f"{path}/feedback", data={**sent, "outcome": "partial", "note": "so so"}).text
    assert "before" in browser.post(f"{path}/feedback", data={**sent, "outcome": "partial", "note": "so so"}).text
    assert browser.post(f"{path}/feedback", data={**sent, "outcome": "failure", "note": ""}).status_code == 409
    wrong = browser.post(f"{path}/feedback", data={**sent, "outcome": "unknown", "note": ""})
    assert wrong.status_code == 422
    assert "say how it went" in wrong.text


def test_looking_at_a_runs_events_is_recorded(browser: TestClient, ledger: Ledger, answered: str) -> None:
    shown = browser.get(f"/console/runs/{answered}/events")
    assert "GateRequested" in shown.text
    assert "AnswerReady" in shown.text
    assert actions(ledger, "events_read") == [("local", f"run:{answered}")]


def test_a_run_that_was_pruned_is_gone_and_one_that_never_was_is_not_here(browser: TestClient, ledger: Ledger) -> None:
    run_id = ask(browser)
    ledger.cancel(run_id)
    Pruning(ledger.database).prune(datetime.now(UTC) + timedelta(seconds=1), "ana")
    gone = browser.get(f"/console/runs/{run_id}")
    assert gone.status_code == 404
    assert "<h1>Gone</h1>" in gone.text
    assert "was pruned by ana at" in gone.text
    later = f"run_{time.time_ns() // 1_000_000 + 60_000:012x}{'0' * 16}"
    assert browser.get(f"/console/runs/{later}").status_code == 404
    assert browser.get("/console/runs/run_zzz").status_code == 404


def test_a_key_of_some_corpora_sees_their_runs_alone_and_an_agent_changes_nothing(
    browser: TestClient, ledger: Ledger
) -> None:
    own, other = ask(browser, "own", "docs"), ask(browser, "other", "secret-plans")
    keys = browser.app.state.instance.keys  # type: ignore[attr-defined]
    signed_in(browser, keys.create("an agent", "agent", ("docs",))[1])
    listed = browser.get("/console/runs").text
    assert own in listed
    assert other not in listed
    assert "Cancel chosen" not in listed
    assert browser.get(f"/console/runs/{other}").status_code == 404
    assert browser.get(f"/console/stream?page=run&run={other}").status_code == 404
    shown = browser.get(f"/console/runs/{own}").text
    assert "Cancel the run" not in shown
    token = token_in(shown)
    for action in ("cancel", "replay", "feedback"):
        refused = browser.post(f"/console/runs/{own}/{action}", data={"token": token})
        assert refused.status_code == 403
        assert "role operator" in refused.text
    assert browser.post("/console/runs/cancel", data={"token": token, "run": own}).status_code == 403
    assert ledger.status_of(own) == "open"

    signed_in(browser, keys.create("an operator", "operator", ("docs",))[1])
    token = token_in(browser.get(f"/console/runs/{own}").text)
    assert browser.post("/console/runs/cancel", data={"token": token, "run": [own, other]}).status_code == 404
    assert ledger.status_of(own) == "open"
    assert browser.post(f"/console/runs/{own}/cancel", data={"token": token}).status_code == 200
    assert ledger.status_of(own) == "cancelled"


def test_while_the_ledger_is_away_a_stream_shows_the_last_figures(
    browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise Unavailable("the database does not answer")

    database = browser.app.state.instance.context.ledger.database  # type: ignore[attr-defined]
    with browser.stream("GET", "/console/stream?page=overview") as response:
        lines = response.iter_lines()
        assert "stage-crawl" in next(line for line in lines if "stage-crawl" in line)
        monkeypatch.setattr(database, "reading", away)
        told = []
        for line in lines:
            told.append(line)
            if "stage-crawl" in line and any("No figures since" in one for one in told):
                break
    assert sum("No figures since" in line for line in told) == 1


def test_the_stream_of_a_run_ends_with_it(browser: TestClient) -> None:
    run_id = ask(browser)
    with browser.stream("GET", f"/console/stream?page=run&run={run_id}") as response:
        lines = response.iter_lines()
        assert any("open" in line for line in lines if line.startswith("data:"))
        browser.app.state.instance.context.ledger.cancel(run_id)  # type: ignore[attr-defined]
        rest = list(lines)
    assert "event: over" in rest
