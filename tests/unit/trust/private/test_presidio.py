"""presidio's recognisers work beside ours, and nothing goes to the network for them."""

from __future__ import annotations

import importlib.util
import socket

import pytest

from sluice.contracts.errors import InvalidSetting
from sluice.trust.private.patterns import PatternFinder, PresidioFinder, build_finder
from sluice.trust.settings import TrustSettings

INSTALLED = importlib.util.find_spec("presidio_analyzer") is not None
needs_presidio = pytest.mark.skipif(not INSTALLED, reason="the extra `private` (presidio-analyzer) is not installed")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was asked of the network: look-ups of names and connections; all of them fail."""
    asked: list[object] = []

    def refuse(*arguments: object, **_: object) -> None:
        asked.append(arguments)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    return asked


@needs_presidio
def test_national_numbers_are_found_without_one_look_at_the_network(asked: list[object]) -> None:
    text = "NHS number 943 476 5919, mail jane@example.co.uk, see http://www.example.org, ABN 51 824 753 556"
    spans = PresidioFinder().find(text)
    assert [span.kind for span in spans] == ["uk_nhs", "email", "au_abn"]
    assert asked == []


@needs_presidio
def test_its_version_is_of_the_patterns_and_of_presidio() -> None:
    finder = build_finder(TrustSettings(recognisers="presidio"))
    assert finder.version.startswith(f"{PatternFinder().version}-presidio-")
    assert finder is build_finder(TrustSettings(recognisers="presidio"))


@pytest.mark.skipif(INSTALLED, reason="presidio is installed")
def test_without_presidio_the_error_names_setting_and_extra() -> None:
    with pytest.raises(InvalidSetting, match=r"trust\.recognisers.*extra `private`"):
        _ = build_finder(TrustSettings(recognisers="presidio")).version


def test_our_own_patterns_ask_nothing_of_the_network(asked: list[object]) -> None:
    PatternFinder().find("jane@example.co.uk, http://www.example.org, https://a:b1c2d3e4@example.com, 10.1.2.3")
    assert asked == []


def test_kinds_to_mask_are_checked_and_national_ones_taken() -> None:
    assert TrustSettings(mask=("secret", "uk_nhs")).mask == ("secret", "uk_nhs")
    with pytest.raises(ValueError, match="'cards' is no kind of private data"):
        TrustSettings(mask=("cards",))
