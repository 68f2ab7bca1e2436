"""The embedded broker keeps its address for as long as it can have it."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sluice.workers.broker.embedded import prepare_broker
from sluice.workers.settings import Settings
from tests.support.valkey import Valkey


@pytest.mark.own_broker
def test_the_address_stays_the_same_while_the_broker_runs_and_after_it(valkey: Valkey) -> None:
    url = valkey.settings.broker_location
    assert prepare_broker(valkey.settings) == url
    valkey.kill()
    assert prepare_broker(valkey.settings) == url


@pytest.mark.own_broker
def test_a_port_that_somebody_else_has_taken_is_given_up(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    url = prepare_broker(settings)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", urlsplit(url).port or 0))
        stranger.listen()
        other = prepare_broker(settings)
    assert other != url
    assert settings.broker_location == other
    assert f"port {urlsplit(other).port}" in (tmp_path / "broker" / "valkey.conf").read_text()
