"""`sluice dead` on a real ledger and broker: lists, edits, replays, purges, and asks before it does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from sluice.cli.command import moment
from sluice.cli.main import app
from sluice.contracts.event import DeadLetter, Event, Next, encode, new_run_id
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.ledger import Claim, Ledger, NewRun
from tests.support.served import served
from tests.support.valkey import Valkey

Sluice = Callable[..., Result]


@pytest.fixture
def sluice(valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sluice]:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(valkey.settings.data_dir))
    with served(valkey.settings):
        yield lambda *arguments, **facts: CliRunner().invoke(app, ["dead", *arguments], prog_name="sluice", **facts)


@pytest.fixture
def ledger(valkey: Valkey) -> Iterator[Ledger]:
    with Ledger(valkey.settings.ledger_location) as opened:
        yield opened


def parked(ledger: Ledger) -> tuple[Event, str]:
    run_id = new_run_id()
    event = Event.of(CrawlDirected(url="https://example.org/1"), run_id=run_id, corpus="docs")
    run = NewRun(run_id=run_id, kind="crawl", corpus="docs", request_sha256="0" * 64)
    ledger.create_run(run, [(event, Next(event.body))])
    claim = ledger.claim_next("crawl", "w1", 10.0)
    assert isinstance(claim, Claim)
    ledger.settle(claim, DeadLetter("policy", ValueError("[red]the site is gone[/]")))
    return event, ledger.dead_letters.list()[0].id


def value(result: Result) -> Any:
    """The one JSON value on stdout."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_list_is_one_line_per_fingerprint_and_each_letter_when_asked(sluice: Sluice, ledger: Ledger) -> None:
    for _ in range(2):
        parked(ledger)
    [group] = value(sluice("list", "--json"))
    assert group["count"] == 2
    assert "[red]the site is gone[/]" in sluice("list").stdout
    letters = value(sluice("list", "--fingerprint", group["fingerprint"], "--json"))
    assert letters == value(sluice("list", "--each", "--since", "1h", "--json"))
    assert len(letters) == 2
    assert value(sluice("list", "--until", "1h", "--json")) == []
    page = sluice("list", "--each", "--limit", "1").stdout
    position = page.rsplit("--cursor ", 1)[1].strip()
    assert [x["id"] for x in value(sluice("list", "--each", "--limit", "1", "--cursor", position, "--json"))] == [
        letters[1]["id"]
    ]


def test_a_letter_is_shown_with_its_payload_stack_and_actions(sluice: Sluice, ledger: Ledger) -> None:
    event, letter_id = parked(ledger)
    ledger.dead_letters.replay(letter_id, "ann", note="mended")
    shown = sluice("show", letter_id).stdout
    for told in (event.id, encode(event).decode()[:40], "ValueError", "ann", "mended"):
        assert told in shown.replace("\n", "")
    assert value(sluice("show", letter_id, "--json"))["actions"][0]["operator"] == "ann"


def test_a_payload_is_edited_from_standard_input_a_file_or_in_an_editor(
    sluice: Sluice, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event, letter_id = parked(ledger)

    def page(number: int) -> bytes:
        return encode(event).replace(b"example.org/1", f"example.org/{number}".encode())

    assert value(sluice("edit", letter_id, "--file", "-", "--json", input=page(2)))["sha256"]
    (tmp_path / "new.json").write_bytes(page(3))
    assert value(sluice("edit", letter_id, "--file", "new.json", "--json"))["payload"]["text"].encode() == page(3)
    monkeypatch.setenv("EDITOR", "sed -i s#example.org/3#example.org/4#")
    monkeypatch.delenv("VISUAL", raising=False)
    assert sluice("edit", letter_id).exit_code == 0
    letter = ledger.dead_letters.show(letter_id)
    assert json.loads(letter.payload.raw) == json.loads(page(4))
    assert [past.payload.raw for past in letter.payload_history] == [encode(event), page(2), page(3)]
    unchanged = sluice("edit", letter_id)
    assert (unchanged.exit_code, "left as it is" in unchanged.stderr) == (5, True)
    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert sluice("edit", letter_id).exit_code == 2
    assert sluice("edit", letter_id, "--file", "-", input=b"{").exit_code == 2


def test_one_letter_goes_back_to_work(sluice: Sluice, ledger: Ledger) -> None:
    event, letter_id = parked(ledger)
    assert value(sluice("replay", letter_id, "--json"))["event_id"] == event.id
    assert ledger.standing(event.id) == "ready"
    assert sluice("replay", letter_id).exit_code == 5


def test_many_go_back_to_work_after_a_dry_run(sluice: Sluice, ledger: Ledger) -> None:
    event, _ = parked(ledger)
    ledger.dead_letters.park_raw(b"?", "crawl", "malformed")
    plan = value(sluice("replay", "--stage", "crawl", "--dry-run", "--json"))
    assert (plan["replayable"], plan["skips"]) == (1, {"not_an_event": 1})
    assert "1 of 2 letters" in sluice("replay", "--all", "--dry-run").stdout
    assert value(sluice("replays", "--json")) == []
    replay_id = value(sluice("replay", "--stage", "crawl", "--rate", "50", "--json"))["id"]
    assert value(sluice("pause", replay_id, "--json"))["status"] == "paused"
    assert "running" in sluice("resume", replay_id).stdout
    assert [wake_up.event_id for wake_up in ledger.replays.advance(ledger.clock() + 1.0)] == [event.id]
    shown = value(sluice("replays", replay_id, "--json"))
    assert (shown["replayed"], [action["action"] for action in shown["actions"]]) == (
        1,
        ["replay many", "pause", "resume"],
    )
    assert replay_id in sluice("replays").stdout
    assert sluice("abort", replay_id).exit_code == 5


def test_what_was_counted_goes_back_and_no_more(sluice: Sluice, ledger: Ledger) -> None:
    parked(ledger)
    told = sluice("replay", "--all", "--dry-run").stdout
    counted = " ".join(told.split()).partition("these alone: ")[2].split()
    assert (counted[0], counted[2:]) == ("--up-to", ["--confirm", "1"])
    _, younger = parked(ledger)
    refused = sluice("replay", "--all", "--confirm", "1")
    assert refused.exit_code == 5
    assert "2 dead letters match now, not 1" in refused.stderr
    assert value(sluice("replay", "--all", *counted, "--json"))["total"] == 1
    ledger.replays.advance(ledger.clock() + 10.0)
    assert [letter.id for letter in ledger.dead_letters.list()] == [younger]


@pytest.mark.parametrize(
    "arguments", [["replay"], ["purge"], ["replay", "dead_1", "--stage", "crawl"], ["purge", "dead_1", "--all"]]
)
def test_it_must_be_said_which_letters_are_meant(sluice: Sluice, arguments: list[str]) -> None:
    result = sluice(*arguments)
    assert result.exit_code == 2
    assert "letter_id" in result.stderr


def test_a_rate_that_is_none_is_refused(sluice: Sluice) -> None:
    result = sluice("replay", "--all", "--rate", "0")
    assert (result.exit_code, "per_second" in result.stderr) == (2, True)


def test_a_purge_asks_first(sluice: Sluice, ledger: Ledger) -> None:
    _, letter_id = parked(ledger)
    parked(ledger)
    assert value(sluice("purge", "--stage", "crawl", "--dry-run", "--json")) == {"matching": 2, "purged": 0}
    for refused in (sluice("purge", letter_id, input="n\n"), sluice("purge", "--all", input="")):
        assert refused.exit_code in (2, 5)
    assert len(ledger.dead_letters.list()) == 2
    assert sluice("purge", letter_id, "--note", "old", input="y\n").exit_code == 0
    assert value(sluice("purge", "--all", "--yes", "--json")) == {"matching": 1, "purged": 1}
    assert ledger.dead_letters.list() == []
    assert [(action.action, action.note) for action in ledger.dead_letters.show(letter_id).actions] == [
        ("purge", "old")
    ]


def test_a_moment_is_said_as_people_say_it() -> None:
    assert moment("2026-01-31T12:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert moment("2026-01-31T12:00+02:00") == datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert timedelta(minutes=89) < datetime.now(UTC) - moment("1.5h") < timedelta(minutes=91)
    with pytest.raises(typer.BadParameter):
        moment("yesterday")
