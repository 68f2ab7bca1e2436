"""`cli/sluice.toml` and the settings classes say the same: every setting once, its default, and what it means."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from sluice.cli.instance.init import commented_settings
from sluice.workers.setting_names import names_of
from sluice.workers.settings import Settings, load_settings

EXAMPLE = "  # an example; not set by default"
SETTING = re.compile(r"#(\w+) = (.+)")


def entries() -> dict[str, tuple[str, str]]:
    """Each setting of the file by its dotted name: what stands behind the equals sign, and the comment above."""
    found, section, comment = {}, "", ""
    for line in commented_settings().splitlines():
        if line.startswith("["):
            section, comment = line[1:-1] + ".", ""
        elif match := SETTING.fullmatch(line):
            assert section + match[1] not in found, f"{section}{match[1]} stands there twice"
            found[section + match[1]] = match[2], comment
            comment = ""
        else:
            comment = comment + line if line else ""
    return found


def test_the_file_names_every_setting_and_no_other() -> None:
    assert entries().keys() == names_of(Settings)


def test_each_default_in_the_file_is_the_default_of_the_class_and_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = Settings()
    lines = [line[1:] if SETTING.fullmatch(line) else line for line in commented_settings().splitlines()]
    Path("sluice.toml").write_text("\n".join(line for line in lines if not line.endswith(EXAMPLE)))
    assert load_settings() == plain.model_copy(update={"data_dir": tmp_path / "sluice-data"})


def test_what_has_no_default_has_an_example_that_its_class_takes() -> None:
    for name, (value, _) in entries().items():
        section, _, field = name.rpartition(".")
        kind = Settings.model_fields[section].annotation if section else Settings
        default = kind.model_fields[field].get_default(call_default_factory=True)
        assert value.endswith(EXAMPLE) == (default is None), name
        if default is None:
            kind.__pydantic_validator__.validate_assignment(
                kind.model_construct(), field, tomllib.loads(f"x = {value}")["x"]
            )


def test_each_setting_says_what_it_is_for() -> None:
    assert [name for name, (_, comment) in entries().items() if len(comment) < 15] == []
