"""Settings: a file or variable that cannot be read is named, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import InvalidSetting
from workers.settings import load_settings


@pytest.mark.parametrize("content", [b"x = [", b"\xff\xfe", b"http_port = 'x'", b"surprise = 1"])
def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    file = tmp_path / "sluice.toml"
    file.write_bytes(content)
    monkeypatch.setenv("SLUICE_CONFIG", str(file))
    with pytest.raises(InvalidSetting) as refused:
        load_settings()
    assert refused.value.field in {str(file), "http_port", "surprise"}


def test_a_variable_that_is_no_json_where_a_list_belongs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_SEARCH__PROVIDERS", "searxng")
    with pytest.raises(InvalidSetting, match="SLUICE_SEARCH__PROVIDERS"):
        load_settings()
