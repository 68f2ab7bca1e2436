"""Settings: a file or variable that cannot be read is named, never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidSetting
from sluice.workers.settings import environment_of, load_settings, stray_variables


@pytest.mark.parametrize("content", [b"x = [", b"\xff\xfe", b"http_port = 'x'", b"surprise = 1"])
def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    file = tmp_path / "sluice.toml"
    file.write_bytes(content)
    monkeypatch.setenv("SLUICE_CONFIG", str(file))
    with pytest.raises(InvalidSetting) as refused:
        load_settings()
    assert refused.value.field in {str(file), "http_port", "surprise"}


def test_a_variable_that_is_no_json_where_a_list_belongs_is_named_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_SEARCH__ENABLED", "true")
    monkeypatch.setenv("SLUICE_SEARCH__PROVIDERS", "searxng")
    with pytest.raises(InvalidSetting, match=r"^SLUICE_SEARCH__PROVIDERS: is no JSON"):
        load_settings()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without settings; nothing of this machine's reaches it."""
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_wrong_setting_is_named_at_once_with_what_was_meant(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sluice.toml").write_text(
        "http_prt = 1\n[crawl]\nmax_pges = 3\n[search]\nquota_per_day = -1\n[serch]\nenabled = true\n"
    )
    monkeypatch.setenv("SLUICE_CRAWL__MAX_PAGS", "3")
    monkeypatch.setenv("SLUICE_POOL__CRAWL", "3")
    with pytest.raises(InvalidSetting) as refused:
        load_settings()
    told = str(refused.value)
    assert "http_prt: is no setting (did you mean http_port?)" in told
    assert "crawl.max_pges: is no setting (did you mean crawl.max_pages?)" in told
    assert "search.quota_per_day: Input should be greater than or equal to 0" in told
    assert "serch: is no setting (did you mean search?)" in told
    assert "SLUICE_CRAWL__MAX_PAGS: is no setting (did you mean SLUICE_CRAWL__MAX_PAGES?)" in told
    assert "SLUICE_POOL__CRAWL: is no setting (did you mean SLUICE_POOLS__CRAWL?)" in told


def test_a_constant_that_is_set_is_said_to_be_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sluice.toml").write_text("[delivery]\nretry_max_seconds = 3\n")
    monkeypatch.setenv("SLUICE_MAX_REQUEST_BYTES", "60")
    with pytest.raises(InvalidSetting) as refused:
        load_settings()
    for name in ("delivery.retry_max_seconds", "SLUICE_MAX_REQUEST_BYTES"):
        assert f"{name}: is no setting (it is a constant: delete it)" in str(refused.value)


def test_a_variable_that_sets_nothing_is_named_and_does_no_harm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs set such variables too: Kubernetes does for every service of the name."""
    monkeypatch.setenv("SLUICE_HTP_PORT", "1")
    monkeypatch.setenv("SLUICE_PORT_80_TCP_ADDR", "10.0.0.1")
    load_settings()
    first, second = stray_variables()
    assert first == "SLUICE_HTP_PORT is no setting and was ignored: did you mean SLUICE_HTTP_PORT?"
    assert second.startswith("SLUICE_PORT_80_TCP_ADDR is no setting")


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("amqp://user:secret@rabbit/", "set it as wake_up_url beside a Redis or Valkey"),
        ("localhost:6379", "redis://host:6379/0, or leave it out"),
        ("sqs://", "redis://host:6379/0, or leave it out"),
    ],
)
def test_a_broker_that_is_no_redis_is_refused_with_the_remedy_and_without_its_password(
    folder: Path, monkeypatch: pytest.MonkeyPatch, url: str, remedy: str
) -> None:
    monkeypatch.setenv("SLUICE_BROKER_URL", url)
    with pytest.raises(InvalidSetting, match=remedy) as refused:
        load_settings()
    assert "secret" not in str(refused.value)


def test_wake_ups_go_by_rabbitmq_or_not_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_WAKE_UP_URL", "redis://:secret@valkey/")
    with pytest.raises(InvalidSetting, match="amqp://user:password@host:5672/, or leave it out") as refused:
        load_settings()
    assert "secret" not in str(refused.value)
    monkeypatch.setenv("SLUICE_WAKE_UP_URL", "amqps://user:secret@rabbit/")
    settings = load_settings()
    (folder / "broker.url").write_text("redis://127.0.0.1:1/0")
    settings = settings.model_copy(update={"data_dir": folder})
    assert environment_of(settings)["SLUICE_WAKE_UP_URL"] == "amqps://user:secret@rabbit/"


def test_an_instance_is_found_from_a_folder_below_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sluice.toml").write_text('data_dir = "data"\nhttp_port = 8811\n')
    below = folder / "docs" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert (load_settings().data_dir, load_settings().http_port) == (folder / "data", 8811)
    (folder / "sluice.toml").write_text("http_port = 8811\n")
    assert load_settings().data_dir == folder / "sluice-data", "as the file of an earlier release has it"


def test_a_data_directory_without_a_file_is_found_above_and_else_the_users_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "home"))
    (folder / "project" / "docs").mkdir(parents=True)
    monkeypatch.chdir(folder / "project" / "docs")
    assert load_settings().data_dir == folder / "home" / "sluice"
    (folder / "project" / "sluice-data").mkdir()
    assert load_settings().data_dir == folder / "project" / "sluice-data"
    assert not (folder / "home").exists()


def test_a_settings_file_of_another_user_above_does_not_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sluice.toml").write_text("http_port = 8811\n")
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    monkeypatch.setattr("os.geteuid", lambda: os.lstat(folder).st_uid + 1)
    assert (load_settings().http_port == 8811) == (os.lstat(folder).st_uid == 0)


def test_files_of_secrets_set_what_they_are_named_for_and_variables_count_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "SLUICE_LEDGER_URL").write_text("postgresql+psycopg://sluice:hidden@db/sluice\n")
    (tmp_path / "sluice_search__providers").write_text('["brave"]')
    (tmp_path / "sluice_http_port").write_text("8801")
    (tmp_path / "another program's").write_text("x")
    monkeypatch.setenv("SLUICE_HTTP_PORT", "8802")
    settings = load_settings()
    assert settings.ledger_url == "postgresql+psycopg://sluice:hidden@db/sluice"
    assert settings.search.providers == ("brave",)
    assert settings.http_port == 8802


def test_a_file_of_secrets_that_sets_nothing_is_named_without_its_content(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "SLUICE_SEARCH__BRAVE_KEY").write_text("hidden")
    with pytest.raises(InvalidSetting) as raised:
        load_settings()
    assert "SLUICE_SEARCH__BRAVE_API_KEY" in str(raised.value)
    assert "hidden" not in str(raised.value)
    (tmp_path / "SLUICE_SEARCH__BRAVE_KEY").rename(tmp_path / "SLUICE_SEARCH__PROVIDERS")
    with pytest.raises(InvalidSetting, match="SLUICE_SEARCH__PROVIDERS: is no JSON"):
        load_settings()
    (tmp_path / "SLUICE_SEARCH__PROVIDERS").write_bytes(b"\xff")
    with pytest.raises(InvalidSetting, match=r"SLUICE_SEARCH__PROVIDERS: .*let this user read it"):
        load_settings()
