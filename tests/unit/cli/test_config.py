"""`sluice config`: one setting with its place, and everything that is wrong at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.instance.config import contradictions
from sluice.cli.main import app
from sluice.workers.service.operate.settings import line_of
from sluice.workers.settings import load_settings

Sluice = Callable[..., Result]

FILE = """\
http_port = 8801

[crawl]
enabled = true
max_pages = 3
max_pgs = 4

[search]
top = 1
enabled = "perhaps"
"""


@pytest.fixture
def sluice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, list(arguments), prog_name="sluice")


def test_one_setting_is_shown_with_the_line_that_sets_it(sluice: Sluice, tmp_path: Path) -> None:
    file = tmp_path / "sluice.toml"
    file.write_text("http_port = 8801\n[crawl]\nmax_pages = 3\n")
    assert sluice("config", "show", "crawl.max_pages").output == f"crawl.max_pages = 3 <- {file}:3\n"
    assert sluice("config", "http_port").output == f"http_port = 8801 <- {file}:1\n"
    assert sluice("config", "show", "http_host").output == "http_host = 127.0.0.1 <- default\n"
    assert sluice("config", "show", "crawl").output.count("\n") > 5, "a section has all of its settings"
    assert sluice("config").output.splitlines()[0].startswith("settings")


def test_the_environment_counts_first_and_a_misspelt_key_is_guessed(
    sluice: Sluice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_CRAWL__MAX_PAGES", "7")
    assert sluice("config", "show", "crawl.max_pages").output == "crawl.max_pages = 7 <- SLUICE_CRAWL__MAX_PAGES\n"
    wrong = sluice("config", "show", "crawl.max_page")
    assert wrong.exit_code == 2
    assert "did you mean crawl.max_pages?" in wrong.output


def test_everything_that_is_wrong_is_named_at_once_with_its_place(
    sluice: Sluice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "sluice.toml"
    file.write_text(FILE)
    monkeypatch.setenv("SLUICE_POOLS__CRAWL", "-1")
    monkeypatch.setenv("SLUICE_HTP_PORT", "8080")
    result = sluice("config", "check", "--json")
    assert result.exit_code == 1
    found = {one["setting"]: one for one in json.loads(result.stdout)}
    assert found.keys() == {"crawl.max_pgs", "search.top", "search.enabled", "pools.crawl", "SLUICE_HTP_PORT"}
    assert found["crawl.max_pgs"]["where"] == f"{file}:6"
    assert found["crawl.max_pgs"]["remedy"] == "did you mean crawl.max_pages?"
    assert found["search.enabled"]["where"] == f"{file}:10"
    assert found["pools.crawl"]["where"] == "SLUICE_POOLS__CRAWL"
    assert found["SLUICE_HTP_PORT"]["kind"] == "warning"
    assert "SLUICE_HTTP_PORT" in found["SLUICE_HTP_PORT"]["problem"]
    told = sluice("config", "check").output
    assert f"error {file}:6: crawl.max_pgs: is no setting (did you mean crawl.max_pages?)" in told


def test_a_file_that_is_no_toml_is_named_with_its_line(sluice: Sluice, tmp_path: Path) -> None:
    (tmp_path / "sluice.toml").write_text("http_port = 1\n[crawl\n")
    result = sluice("config", "check")
    assert result.exit_code == 1
    assert "line 2" in result.output


def test_what_is_well_is_said_to_be(sluice: Sluice) -> None:
    result = sluice("config", "check")
    assert (result.exit_code, result.output) == (0, "no file, so defaults: nothing is wrong\n")


@pytest.mark.parametrize(
    ("variables", "setting"),
    [
        ({"CRAWL__ENABLED": "true"}, "crawl.contact"),
        ({"SEARCH__ENABLED": "true"}, "search.providers"),
        ({"SEARCH__ENABLED": "true", "SEARCH__PROVIDERS": '["brave"]'}, "search.brave_api_key"),
        ({"SEARCH__ENABLED": "true", "SEARCH__PROVIDERS": '["searxng"]'}, "search.searxng_url"),
        ({"SEARCH__ENABLED": "true", "EGRESS__POLICY": "deny"}, "search.enabled"),
        ({"CRAWL__ENABLED": "true", "POOLS__CRAWL": "0"}, "pools.crawl"),
        ({"FRESHNESS__EVERY_HOURS": "6"}, "freshness.every_hours"),
        ({"INDEX__ENGINE": "qdrant"}, "qdrant.url"),
        ({"BUDGET__RUN_USD": "9"}, "budget.run_usd"),
    ],
)
def test_values_that_contradict_each_other_are_found(
    sluice: Sluice, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], setting: str
) -> None:
    assert not [*contradictions(load_settings())]
    for name, value in variables.items():
        monkeypatch.setenv(f"SLUICE_{name}", value)
    assert setting in [one.field for one in contradictions(load_settings())]
    assert sluice("config", "check").exit_code == 1


def test_a_line_is_found_by_table_and_by_dotted_key() -> None:
    text = "a = 1\nb.c = 2\n[d]\ne = 3\n[d.f]\ng = 4\n"
    assert [line_of(text, name) for name in ("a", "b.c", "d.e", "d.f.g", "d.x", "y")] == [1, 2, 4, 6, 3, None]
