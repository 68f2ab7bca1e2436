"""The command line on a real ledger: what it prints, how it fails, and with which exit code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from sluice.cli import connection
from sluice.cli.instance.doctor import checks_of
from sluice.cli.instance.init import settings_for
from sluice.cli.main import COMMANDS, GROUPS, app, load
from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument, Provenance, sha256_text
from sluice.index.local.writer import IndexWriter
from sluice.workers.setting_names import names_of
from sluice.workers.settings import Settings, load_settings

NOW = datetime(2026, 1, 1, tzinfo=UTC)

Sluice = Callable[..., Result]


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An instance of its own: nothing of this machine's configuration reaches it."""
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def sluice(data_dir: Path) -> Sluice:
    return lambda *arguments: CliRunner().invoke(app, list(arguments), prog_name="sluice")


def value(result: Result) -> Any:
    """The one JSON value on stdout."""
    return json.loads(result.stdout)


# -- the table of commands


def test_the_table_says_of_each_command_what_the_command_says_of_itself() -> None:
    for name, entry in COMMANDS.items():
        told = load(name).help if name in GROUPS else load(name).callback.__doc__.partition("\n")[0]
        assert told == entry.summary, name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(sluice: Sluice, name: str) -> None:
    result = sluice(name, "--help")
    assert result.exit_code == 0, result.output
    assert "Usage: sluice" in result.stdout


def test_help_lists_the_exit_codes_and_loads_nothing_heavy() -> None:
    program = "import sys\nfrom sluice.cli.main import app\ntry:\n app(['--help'])\nexcept SystemExit: pass\nprint(sorted(sys.modules))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "130 interrupted" in told
    loaded = told.splitlines()[-1]
    assert not [
        name for name in ("pydantic", "sqlalchemy", "celery", "numpy", "opentelemetry") if f"'{name}'" in loaded
    ]


def test_the_version_is_that_of_the_package(sluice: Sluice) -> None:
    assert value(sluice("version", "--json"))["sluice"] in sluice("version").stdout


# -- errors


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["runs", "run_x"], 6, "unavailable"),
        (["trace", "run_x"], 6, "unavailable"),
        (["gate", "explain", "run_x"], 6, "unavailable"),
        (["dead", "show", "x"], 6, "unavailable"),
        (["keys", "revoke", "key_x"], 3, "not_found"),
        (["keys", "create", "a", "--role", "king"], 2, "invalid_input"),
        (["snapshot", "verify", "-c", "none"], 3, "not_found"),
        (["snapshot", "rollback", "-c", "../x"], 2, "invalid_input"),
        (["ask", "why?"], 6, "unavailable"),
        (["query", "why?"], 6, "unavailable"),
        (["ingest", "."], 6, "unavailable"),
        (["crawl", "https://example.com"], 6, "unavailable"),
        (["dead", "replay", "x"], 6, "unavailable"),
    ],
)
def test_an_error_is_a_message_and_a_code_never_a_traceback(
    sluice: Sluice, arguments: list[str], code: int, error: str
) -> None:
    spoken, written = sluice(*arguments), sluice(*arguments, "--json")
    assert (spoken.exit_code, spoken.stdout) == (code, "")
    assert spoken.stderr.startswith("error ")
    assert "Traceback" not in spoken.stderr
    assert (written.exit_code, value(written)["error"]) == (code, error)


def test_a_wrong_setting_names_its_key_and_its_variable(sluice: Sluice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_HTTP_PORT", "99999")
    result = sluice("runs")
    assert result.exit_code == 2
    assert "http_port" in result.stderr
    assert "SLUICE_HTTP_PORT" in result.stderr


def test_where_no_instance_answers_one_line_says_where_and_what_to_do(
    sluice: Sluice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_HTTP_PORT", "9")
    monkeypatch.setenv("SLUICE_URL", "")  # `--url` sets it; afterwards it is as it was
    for arguments in (["runs"], ["ask", "why?"], ["flags", "list"], ["dead", "list"], ["show", "a.md"]):
        told = " ".join(sluice(*arguments).stderr.split())
        assert told == "error no instance answers at http://127.0.0.1:9: start it with `sluice up`"
    assert "http://127.0.0.1:10: " in sluice("--url", "http://127.0.0.1:10", "runs").stderr
    assert sluice("--url", "http://[::", "runs").exit_code == 2


def test_a_misspelt_command_is_guessed(sluice: Sluice) -> None:
    result = sluice("sanpshot")
    assert result.exit_code == 2
    assert "'snapshot'" in result.stderr


@pytest.mark.parametrize("arguments", [["worker", "bake"], ["up", "--scale", "crawl"], ["up", "--scale", "crawl=-1"]])
def test_a_process_that_does_not_exist_is_refused(sluice: Sluice, arguments: list[str]) -> None:
    result = sluice(*arguments)
    assert result.exit_code == 2
    assert "for instance" in result.stderr or "one of" in result.stderr


def test_an_interruption_ends_with_130(sluice: Sluice, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(connection.Connection, "send", interrupted)
    result = sluice("runs")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


# -- lists


@pytest.mark.parametrize("arguments", [["keys", "list"], ["snapshot", "list"]])
def test_a_new_instance_has_nothing_to_list(sluice: Sluice, arguments: list[str]) -> None:
    assert value(sluice(*arguments, "--json")) == []
    assert "none" in sluice(*arguments).stdout


def test_a_key_is_shown_once_listed_without_its_secret_and_revoked_once(sluice: Sluice) -> None:
    made = value(sluice("keys", "create", "ci", "--role", "operator", "-c", "docs", "--json"))
    listed = sluice("keys", "list", "--json")
    assert made["key"].startswith("slk_")
    assert made["key"] not in listed.stdout
    (key,) = value(listed)
    assert (key["id"], key["name"], key["role"], key["corpora"]) == (made["id"], "ci", "operator", ["docs"])
    assert value(sluice("keys", "revoke", made["id"], "--json"))["revoked"] is True
    assert value(sluice("keys", "list", "--json"))[0]["revoked_at"]
    assert made["id"] in sluice("keys", "list").stdout


# -- init


def test_init_writes_every_setting_once_and_will_not_overwrite(sluice: Sluice, tmp_path: Path) -> None:
    told = value(sluice("init", "--json"))
    path = tmp_path / "sluice.toml"
    assert told == {"path": str(path), "settings": len(names_of(Settings))}
    assert path.stat().st_mode & 0o077 == 0
    path.write_text("# mine\n")
    refused = sluice("init")
    assert (refused.exit_code, path.read_text()) == (5, "# mine\n")
    assert sluice("init", "--force").exit_code == 0
    assert path.read_text() == settings_for(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_the_written_file_changes_nothing_but_where_the_data_is(
    sluice: Sluice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLUICE_DATA_DIR")
    plain = load_settings()
    sluice("init")
    assert load_settings() == plain.model_copy(update={"data_dir": tmp_path / "sluice-data"})


def test_config_shows_where_each_value_comes_from_and_no_key(
    sluice: Sluice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sluice.toml").write_text('[crawl]\nmax_pages = 3\n[search]\nbrave_api_key = "s3cret-key"\n')
    monkeypatch.setenv("SLUICE_SEARCH__QUOTA_PER_DAY", "5")
    shown = {row["setting"]: row for row in value(sluice("config", "--json"))}
    assert shown.keys() == names_of(Settings)
    place = {"from": str(tmp_path / "sluice.toml"), "line": 2}
    assert shown["crawl.max_pages"] == {"setting": "crawl.max_pages", "value": 3, **place}
    assert (shown["search.quota_per_day"]["value"], shown["search.quota_per_day"]["from"]) == (
        5,
        "SLUICE_SEARCH__QUOTA_PER_DAY",
    )
    assert shown["crawl.render"]["from"] == "default"
    changed = sluice("config", "--changed").output
    assert "crawl.max_pages" in changed
    assert "s3cret-key" not in changed
    assert "crawl.render" not in changed


# -- doctor


@pytest.fixture
def without_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser and the model have tests of their own; here they would only cost time."""
    monkeypatch.setenv("SLUICE_CRAWL__RENDER", "never")
    monkeypatch.setenv("SLUICE_EMBED__PROVIDER", "openai")
    monkeypatch.setenv("SLUICE_EMBED__OPENAI_API_KEY", "sk-do-not-print")
    monkeypatch.setenv("SLUICE_HTTP_PORT", "1")


@pytest.mark.usefixtures("without_browser")
def test_doctor_tells_by_what_a_question_in_cypher_is_locked_up(
    sluice: Sluice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[str, str]:
        [found] = [check for check in value(sluice("doctor", "--json"))["checks"] if check["name"] == "cypher"]
        return found["state"], found["detail"]

    state, detail = told()
    assert state in {"ok", "warn"}
    assert ("behind" if state == "ok" else "refused") in detail
    monkeypatch.setenv("SLUICE_GRAPH__CYPHER", "false")
    assert told() == ("ok", "off")


@pytest.mark.usefixtures("without_browser")
def test_doctor_reports_every_subject_and_leaves_no_secret(sluice: Sluice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_BROKER_URL", "redis://:hunter2@127.0.0.1:1/0")
    monkeypatch.setenv("SLUICE_TELEMETRY__OTLP_ENDPOINT", "http://127.0.0.1:1")
    result = sluice("doctor", "--json")
    report = value(result)
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert (result.exit_code, report["ok"]) == (1, False)
    assert (states["broker"], states["otlp"], states["search"], states["crawl"]) == ("fail", "fail", "warn", "warn")
    assert [states[name] for name in ("python", "settings", "ledger", "embedding", "chromium")] == ["ok"] * 5
    assert all(check["remedy"] for check in report["checks"] if check["state"] != "ok")
    assert "hunter2" not in result.output
    assert "sk-do-not-print" not in result.output


@pytest.mark.parametrize(
    ("changed", "state", "told"),
    [
        ({}, "warn", "without a contact"),
        ({"SLUICE_CRAWL__CONTACT": "https://example.org/bot"}, "ok", "(+https://example.org/bot)"),
        ({"SLUICE_EGRESS__POLICY": "deny"}, "fail", "denies all"),
        ({"SLUICE_EGRESS__POLICY": "listed"}, "fail", "nothing is listed"),
    ],
)
def test_doctor_says_how_a_crawl_would_show_itself(
    changed: dict[str, str], state: str, told: str, monkeypatch: pytest.MonkeyPatch, data_dir: Path
) -> None:
    for name, setting in {"SLUICE_CRAWL__ENABLED": "true", **changed}.items():
        monkeypatch.setenv(name, setting)
    [crawl] = [check for check in islice(checks_of(load_settings()), 8) if check.name == "crawl"]
    assert (crawl.state, told in crawl.detail) == (state, True)


@pytest.mark.usefixtures("without_browser")
def test_doctor_names_what_a_chosen_provider_lacks(sluice: Sluice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_SEARCH__ENABLED", "true")
    monkeypatch.setenv("SLUICE_SEARCH__PROVIDERS", '["brave"]')
    result = sluice("doctor")
    assert result.exit_code == 1
    assert "search.brave_api_key" in result.stdout


def test_doctor_survives_settings_that_do_not_load(sluice: Sluice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_HTTP_PORT", "many")
    result = sluice("doctor", "--json")
    assert result.exit_code == 1
    assert [check["name"] for check in value(result)["checks"] if check["state"] == "fail"] == ["settings"]


# -- snapshots


def document(number: int) -> ChunkedDocument:
    text = f"passage number {number} about valves"
    chunk = Chunk(
        chunk_id=f"c{number}",
        document_id=f"d{number}",
        ordinal=0,
        text=text,
        start_line=1,
        end_line=1,
        token_estimate=6,
        checksum=sha256_text(text),
    )
    return ChunkedDocument(
        document_id=f"d{number}",
        checksum=sha256_text(text),
        provenance=Provenance(source="file", fetched_at=NOW),
        chunks=(chunk,),
    )


@pytest.fixture
def generations(data_dir: Path) -> list[str]:
    """Two published generations of the corpus `default`, the newest first."""
    writer = IndexWriter(data_dir / "index", "default", on_fallback=lambda _: None)
    try:
        names = []
        for number in (1, 2):
            vectors = np.eye(8, dtype=np.float32)[number : number + 1]
            writer.append(ChunkBatch(documents=(document(number),)), vectors, "test/8")
            names.append(writer.publish().name)
    finally:
        writer.close()
    return names[::-1]


def test_generations_are_listed_newest_first_and_verified(sluice: Sluice, generations: list[str]) -> None:
    listed = value(sluice("snapshot", "list", "--json"))
    assert [(one["corpus"], one["name"], one["is_current"]) for one in listed] == [
        ("default", generations[0], True),
        ("default", generations[1], False),
    ]
    verified = value(sluice("snapshot", "verify", "--json"))
    assert [(one["generation"], one["ok"]) for one in verified] == [(name, True) for name in generations]
    assert generations[1] in sluice("snapshot", "list").stdout


def test_a_flipped_bit_is_named_by_its_file(sluice: Sluice, generations: list[str], data_dir: Path) -> None:
    folder = next(path for path in data_dir.rglob(generations[0]) if path.is_dir())
    victim = max(
        (path for path in (folder / "terms").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )
    body = bytearray(victim.read_bytes())
    body[len(body) // 2] ^= 1
    victim.unlink()
    victim.write_bytes(body)
    result = sluice("snapshot", "verify", generations[0], "--json")
    (verdict,) = value(result)
    assert (result.exit_code, verdict["ok"]) == (1, False)
    assert victim.name in verdict["problem"]
    spoken = sluice("snapshot", "verify")
    assert spoken.exit_code == 1
    assert victim.name in spoken.stdout


def test_rolling_back_serves_the_one_before_until_there_is_none(sluice: Sluice, generations: list[str]) -> None:
    told = value(sluice("snapshot", "rollback", "--json"))
    assert (told["left"], told["current"]["name"]) == (generations[0], generations[1])
    current = [one["name"] for one in value(sluice("snapshot", "list", "--json")) if one["is_current"]]
    assert current == [generations[1]]
    assert sluice("snapshot", "rollback").exit_code == 3
    assert value(sluice("snapshot", "rollback", generations[0], "--json"))["current"]["name"] == generations[0]


def test_an_unknown_generation_is_not_found(sluice: Sluice, generations: list[str]) -> None:
    for command in ("verify", "rollback"):
        assert sluice("snapshot", command, "g00000099-0000000000000000").exit_code == 3


def test_one_corpus_can_be_asked_for(sluice: Sluice, generations: list[str], data_dir: Path) -> None:
    shutil.copytree(data_dir / "index" / "default", data_dir / "index" / "other", symlinks=True)
    assert {one["corpus"] for one in value(sluice("snapshot", "list", "--json"))} == {"default", "other"}
    assert {one["corpus"] for one in value(sluice("snapshot", "list", "-c", "other", "--json"))} == {"other"}


def test_a_rebuild_from_the_journal_proves_that_it_holds_the_same_chunks(
    sluice: Sluice, generations: list[str]
) -> None:
    told = value(sluice("rebuild", "--prove", "--json"))
    assert told["is_proven"]
    assert told["hash_before"] == told["hash_after"]
    assert "the same chunks as before" in sluice("rebuild", "--prove").stdout
    assert sluice("rebuild", "-c", "unknown").exit_code == 3


def test_the_records_of_a_list_in_parts_go_on_to_its_end() -> None:
    parts = {None: {"data": [{"id": "a"}], "next_cursor": "c"}, "c": {"data": [{"id": "b"}], "next_cursor": None}}
    answers = httpx2.MockTransport(lambda asked: httpx2.Response(200, json=parts[asked.url.params.get("cursor")]))
    part = connection.Connection("http://127.0.0.1:1", transport=answers).forgotten()
    assert [one.id for one in part.data] == ["a"]
    assert [one.id for one in part] == ["a", "b"]
