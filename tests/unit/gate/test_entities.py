"""What a question is about: read the same way each time, from the owner's side of the conversation only."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.gate import Message
from sluice.gate.profile import ENTITY_NAMES, load_profiles
from sluice.gate.seeds import MAX_ENTITY_CHARACTERS, extract_entities

REGIONS = load_profiles()["marketing"].search.regions


def slots(query: str, *session: tuple[Any, str]) -> dict[str, str]:
    return extract_entities(query, [Message(role=role, content=content) for role, content in session], REGIONS)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("is cve-2024-3094 fixed", {"cve": "CVE-2024-3094"}),
        ("GHSA-jfh8-c2jp-5v3q in log4j", {"ghsa": "GHSA-JFH8-C2JP-5V3Q"}),
        ("what does rfc 9110 say about Retry-After", {"rfc": "9110"}),
        ("see RFC-2119", {"rfc": "2119"}),
        ("CVE-24-1 and RFCs and GHSA-0000-0000-0000", {}),
        ('why "connection reset by peer" here', {"error": "connection reset by peer"}),
        ("“cannot open shared object file”?", {"error": "cannot open shared object file"}),
        ("is `foo` the same as `bar`", {}),
        ("I get TypeError: object is not iterable\nin line 3", {"error": "TypeError: object is not iterable"}),
        ("what raises a json.JSONDecodeError", {"error": "json.JSONDecodeError"}),
        ("sort a list in python", {}),
    ],
)
def test_identifiers_and_error_messages_are_found(query: str, found: dict[str, str]) -> None:
    names = {"brand", "campaign", "region"}
    assert {name: value for name, value in slots(query).items() if name not in names} == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("how does Nike's Just Do It campaign do in Germany", ("Nike", "Just Do It", "Germany")),
        ("what do people in the UK think of Acme Cola", ("Acme Cola", None, "UK")),
        ('is the campaign "Real Beauty" of Dove still running', ("Dove", "Real Beauty", None)),
        ("What's new in May in South Korea", (None, None, "South Korea")),
        ("what sells in Asia Pacific and Asia", (None, None, "Asia Pacific")),
        ("how did sales develop last month", (None, None, None)),
        ("Compare both launches", (None, None, None)),
        ("How is the Summer Splash campaign of Acme Cola doing", ("Acme Cola", "Summer Splash", None)),
        ("The campaign of Dove", ("Dove", None, None)),
    ],
)
def test_names_are_read_from_how_they_stand(query: str, found: tuple[str | None, ...]) -> None:
    read = slots(query)
    assert (read.get("brand"), read.get("campaign"), read.get("region")) == found


def test_labels_in_the_session_fill_what_the_question_leaves_open() -> None:
    read = slots(
        "what is the press saying",
        ("system", "You watch the market.\n- Brand: Acme Cola\n- Region: DACH; Benelux"),
        ("user", "campaign: Summer Splash"),
    )
    assert read == {"brand": "Acme Cola", "campaign": "Summer Splash", "region": "DACH"}


def test_the_question_goes_before_the_session_and_the_latest_message_before_the_others() -> None:
    session = [("user", "Region: France"), ("user", "Region: Spain")]
    assert slots("and there", *session)["region"] == "Spain"
    assert slots("Region: Italy", *session)["region"] == "Italy"


@pytest.mark.parametrize("role", ["tool", "assistant"])
def test_what_a_stranger_may_have_written_fills_nothing(role: str) -> None:
    assert slots("how is it going", (role, "Brand: Evil\nCampaign: Steal\nRegion: Spain\nCVE-2024-1234 RFC 1")) == {}


def test_what_cannot_be_seen_is_no_part_of_a_name() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")
    assert slots("hi", ("user", f"Brand: Ac\u200bme\u202e {hidden}Cola"))["brand"].isprintable()


@given(query=st.text(max_size=300), message=st.text(max_size=300))
def test_any_text_gives_the_same_short_slots_each_time(query: str, message: str) -> None:
    read = slots(query or "q", ("user", message))
    assert read == slots(query or "q", ("user", message))
    assert set(read) <= set(ENTITY_NAMES)
    assert all(0 < len(value) <= MAX_ENTITY_CHARACTERS and value.isprintable() for value in read.values())


@pytest.mark.parametrize(
    "piece", ["A ", "Aa ", "Error", "a.", "campaign ", '"', "brand:", "RFC ", "Nike's ", "_Error: ", "A & "]
)
def test_a_long_conversation_is_read_in_no_time(piece: str) -> None:
    long = (piece * 40_000)[:32_000]
    began = time.thread_time()
    slots(long, *[("user", long)] * 32)
    assert time.thread_time() - began < 2
