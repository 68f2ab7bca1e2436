"""Events survive the wire, old versions stay readable, and bad input is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sluice.contracts
from sluice.contracts import schema
from sluice.contracts.errors import MalformedEvent
from sluice.contracts.event import Body, Event, decode, encode
from sluice.contracts.gate import GateRequested
from tests.support.repository import GOLDEN


@pytest.mark.parametrize("path", sorted((GOLDEN / "events").glob("*.json")), ids=lambda path: path.stem)
def test_a_golden_event_is_decoded_and_encoded_to_the_same_json(path: Path) -> None:
    event = decode(path.read_bytes())
    assert f"{event.kind}.v{event.version}" == form_of(path)
    assert json.loads(encode(event)) == json.loads(path.read_bytes())


def test_every_registered_body_has_a_golden_file() -> None:
    expected = {f"{kind}.v{version}" for kind, version in sluice.contracts.Body.registry if not kind.startswith("Test")}
    assert {form_of(path) for path in (GOLDEN / "events").glob("*.json")} == expected


def form_of(path: Path) -> str:
    """Kind and version of a golden file. A word behind them names what was added to that version later."""
    return ".".join(path.stem.split(".")[:2])


def test_the_schemas_on_disk_are_those_of_the_code() -> None:
    on_disk = {path.name: path.read_text() for path in schema.FOLDER.glob("*.json")}
    assert on_disk == schema.schemas(), "run: python -m sluice.contracts.schema"


@given(query=st.text(min_size=1, max_size=200).filter(lambda text: text.strip() and text.isprintable()))
def test_any_question_round_trips(query: str) -> None:
    event = Event.of(GateRequested(query=query), run_id="run_1", corpus="default")
    assert decode(encode(event)) == event


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "NoSuchThing"}, "kind"),
        ({"version": 99}, "version"),
        ({"corpus": "../etc"}, "corpus"),
        ({"occurred_at": "2026-01-01T00:00:00"}, "occurred_at"),
        ({"surprise": 1}, "surprise"),
        ({"body": {"query": "   "}}, "body.query"),
        ({"body": {"query": "q", "top_k": 0}}, "body.top_k"),
        ({"body": {"query": "q", "quary": "q"}}, "body.quary"),
        ({"body": {"query": "q" * 10_000_000}}, "body.query"),
        ({"body": None}, "body"),
    ],
)
def test_a_malformed_event_is_refused_by_the_name_of_its_field(change: dict[str, object], field: str) -> None:
    good = json.loads(encode(Event.of(GateRequested(query="q"), run_id="run_1", corpus="default")))
    with pytest.raises(MalformedEvent) as caught:
        decode({**good, **change})
    assert caught.value.field == field


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff\xfe"])
def test_bytes_that_are_no_event_are_refused(raw: bytes) -> None:
    with pytest.raises(MalformedEvent):
        decode(raw)


def test_an_event_continues_its_cause() -> None:
    first = Event.of(
        GateRequested(query="q"), run_id="run_1", corpus="c", traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01"
    )
    second = Event.of(GateRequested(query="q"), run_id="run_1", corpus="c", cause=first)
    assert second.cause_id == first.id
    assert second.traceparent == first.traceparent


def test_two_bodies_cannot_claim_one_kind_and_version() -> None:
    with pytest.raises(TypeError, match="two bodies claim"):

        class Impostor(Body):
            kind = "GateRequested"
