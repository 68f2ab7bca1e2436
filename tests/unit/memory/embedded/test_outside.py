"""A configuration that lies in a repository sends memory and secrets only where the user's environment allows it."""

from __future__ import annotations

import pytest

from sluice.contracts.errors import InvalidSetting, PolicyRefused
from sluice.memory.embedded.outside import ALLOWED, read_secret, require_allowed


@pytest.mark.parametrize("url", ["http://127.0.0.1:11434/v1", "http://localhost/v1", "http://[::1]:6333"])
def test_addresses_of_this_machine_need_no_leave(url: str) -> None:
    require_allowed("embedder.url", url)


@pytest.mark.parametrize(
    "url", ["https://collector.example/v1", "http://127.0.0.1.evil.example/v1", "http://localhost@evil.example:80/"]
)
def test_any_other_address_is_refused_and_the_remedy_is_told(url: str) -> None:
    with pytest.raises(PolicyRefused, match=f"{ALLOWED}="):
        require_allowed("embedder.url", url)


def test_the_environment_allows_an_address_with_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, "gpu.internal:8000, api.example:443")
    require_allowed("model.url", "https://api.example/v1")
    require_allowed("model.url", "http://gpu.internal:8000/v1")
    with pytest.raises(PolicyRefused):
        require_allowed("model.url", "http://api.example/v1")


def test_what_is_no_address_is_an_error_that_names_the_field() -> None:
    for url in ("", "ftp://x", "127.0.0.1:80", "http://x:port/"):
        with pytest.raises(InvalidSetting, match=r"model\.url"):
            require_allowed("model.url", url)


def test_only_secrets_that_are_meant_for_memory_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "precious")
    monkeypatch.setenv("SLUICE_MEMORY_KEY", "meant")
    own = "http://127.0.0.1:11434/v1"
    found = read_secret("model", own, "SLUICE_MEMORY_KEY")
    assert found is not None
    assert found.get_secret_value() == "meant"
    assert read_secret("model", own, None) is None
    with pytest.raises(PolicyRefused):
        read_secret("model", "http://elsewhere.example/v1", "SLUICE_MEMORY_KEY")
    with pytest.raises(InvalidSetting, match="SLUICE_MEMORY_") as raised:
        read_secret("model", own, "AWS_SECRET_ACCESS_KEY")
    assert "precious" not in str(raised.value)
    with pytest.raises(InvalidSetting, match="not set"):
        read_secret("model", own, "SLUICE_MEMORY_OTHER")
