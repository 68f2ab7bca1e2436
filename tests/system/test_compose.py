"""compose.yaml and what it mounts: everything that is referenced exists, nothing has a default password.

No container engine is needed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from bench.demo.metric_names import metric_names
from sluice.contracts.event import QUEUES
from sluice.ingest.egress.rules import EgressRules
from sluice.workers.broker.embedded import answers, broker_command
from sluice.workers.settings import load_settings
from tests.support.instance import free_port
from tests.support.repository import REPOSITORY
from tests.support.waiting import until

COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}


def _mounts() -> Iterator[tuple[str, str]]:
    for name, service in SERVICES.items():
        for mount in service.get("volumes", []):
            yield name, mount.split(":")[0]


def test_compose_satisfies_the_compose_specification() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    if not checker.exists():
        pytest.skip("check-jsonschema is not installed; `make check` runs it")
    done = subprocess.run(
        [checker, "--builtin-schema", "vendor.compose-spec", REPOSITORY / "compose.yaml"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout


def test_every_stage_and_every_process_is_a_service_of_the_same_image() -> None:
    commands = {name: service["command"] for name, service in OURS.items()}
    assert commands == {
        "api": ["sluice", "api"],
        "reconciler": ["sluice", "reconcile"],
        **{queue: ["sluice", "worker", queue] for queue in QUEUES},
    }
    images = {name: (service["image"], service["build"]["target"]) for name, service in OURS.items()}
    assert images.pop("crawl") == ("sluice-crawl:0.3.0", "crawl")
    assert set(images.values()) == {("sluice:0.3.0", "process")}


def test_every_service_volume_network_and_file_that_is_referenced_exists() -> None:
    for service, source in _mounts():
        if source.startswith("."):
            assert (REPOSITORY / source).exists(), f"{service} mounts {source}, which is not there"
        else:
            assert source in COMPOSE["volumes"], f"{service} mounts the undeclared volume {source}"
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", {})) <= set(SERVICES), name
        assert set(service["networks"]) <= set(COMPOSE["networks"]), name
        for option in service.get("security_opt", []):
            if option.startswith("seccomp="):
                assert (REPOSITORY / option.removeprefix("seccomp=")).is_file(), option
    for service in OURS.values():
        assert (REPOSITORY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_nothing_is_declared_that_nobody_uses() -> None:
    assert {source for _, source in _mounts() if not source.startswith(".")} == set(COMPOSE["volumes"])
    assert {network for service in SERVICES.values() for network in service["networks"]} == set(COMPOSE["networks"])


def test_whoever_waits_for_health_waits_for_a_service_that_reports_it() -> None:
    for name, service in SERVICES.items():
        for needed, terms in service.get("depends_on", {}).items():
            if terms["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed], f"{name} waits for {needed}"
    assert [name for name, service in SERVICES.items() if "healthcheck" not in service] == ["otel-collector", "jaeger"]


def test_every_pool_can_be_scaled() -> None:
    for name in (*QUEUES, "reconciler"):
        assert not {"container_name", "ports", "hostname"} & set(SERVICES[name]), name


def test_images_are_pinned_and_no_password_has_a_default() -> None:
    for name, service in SERVICES.items():
        assert re.search(r":v?\d+\.\d+", service["image"]), f"{name} runs {service['image']}"
    assert not re.findall(r"\$\{\w*(?:PASSWORD|SECRET|KEY)", (REPOSITORY / "compose.yaml").read_text()), (
        "secrets are files"
    )
    for name, service in SERVICES.items():
        for secret in service.get("secrets", []):
            assert secret in COMPOSE["secrets"], f"{name} wants the undeclared secret {secret}"
    used = {secret for service in SERVICES.values() for secret in service.get("secrets", [])}
    assert used == set(COMPOSE["secrets"])


def make_secrets(folder: Path) -> dict[str, str]:
    """What deploy/make-secrets.sh writes, by file."""
    subprocess.run([REPOSITORY / "deploy" / "make-secrets.sh", folder], check=True, timeout=30)
    return {path.name: path.read_text().strip() for path in folder.iterdir()}


def test_every_secret_is_made_once_and_for_this_user_alone(tmp_path: Path) -> None:
    made = make_secrets(tmp_path / "secrets")
    assert set(made) == {secret["file"].removeprefix("./secrets/") for secret in COMPOSE["secrets"].values()}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert len({re.sub(r"\W", "", value) for value in made.values()}) == len(made)
    assert made["broker.conf"].removeprefix("requirepass ") in made["broker_url"]
    assert made["postgres_password"] in made["ledger_url"]
    assert make_secrets(tmp_path / "secrets") == made


def test_the_broker_takes_its_password_from_the_secret_and_throws_nothing_away(tmp_path: Path) -> None:
    """The command of compose.yaml, run by a real server."""
    server = shutil.which("valkey-server") or shutil.which("redis-server") or broker_command(load_settings())[0]
    made = make_secrets(tmp_path)
    command = SERVICES["redis"]["command"]
    assert command[0] == "valkey-server"
    port, options = free_port(), [one.replace("/run/secrets", str(tmp_path)) for one in command[1:]]
    running = subprocess.Popen(
        [server, *options, "--port", str(port), "--dir", str(tmp_path)], stdout=subprocess.DEVNULL
    )
    try:
        url = made["broker_url"].replace("@redis:6379", f"@127.0.0.1:{port}")
        client = redis.Redis.from_url(url)
        until(lambda: answers(url, 1.0))
        assert client.config_get("maxmemory*")["maxmemory-policy"] == "noeviction"
        assert int(client.config_get("maxmemory")["maxmemory"]) == 768 * 2**20
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port).ping()
        check = SERVICES["redis"]["healthcheck"]["test"][1]
        assert "REDISCLI_AUTH=$$(sed 's/requirepass //' /run/secrets/broker.conf)" in check
    finally:
        running.kill()
        running.wait()


def test_our_processes_read_the_addresses_with_passwords_from_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = make_secrets(tmp_path)
    mounted = tmp_path / "run"
    mounted.mkdir()
    for name in OURS["gate"]["secrets"]:
        (mounted / name).write_text(made[COMPOSE["secrets"][name]["file"].removeprefix("./secrets/")])
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(mounted))
    settings = load_settings()
    assert (settings.broker_url, settings.ledger_url) == (made["broker_url"], made["ledger_url"])
    for service in OURS.values():
        assert not {"SLUICE_BROKER_URL", "SLUICE_LEDGER_URL"} & set(service["environment"])


def test_every_container_keeps_a_bounded_log() -> None:
    for name, service in SERVICES.items():
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}, name


def test_our_processes_run_with_the_least_they_need() -> None:
    for name, service in OURS.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["pids_limit"], name
        assert service["mem_limit"], name
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", []))


def test_only_who_must_reach_the_web_has_a_way_out() -> None:
    outside = {name for name, service in SERVICES.items() if "outside" in service["networks"]}
    assert outside == {"search", "crawl", "embed", "query", "searxng"}
    assert COMPOSE["networks"]["inside"]["internal"] is True


def test_the_graph_server_is_optional_reachable_from_loopback_alone_and_has_no_default_password() -> None:
    server = SERVICES["neo4j"]
    assert server["profiles"] == ["neo4j"]
    assert [name for name, service in SERVICES.items() if "profiles" in service] == ["neo4j"]
    assert not any("neo4j" in service.get("depends_on", {}) for service in SERVICES.values())
    assert server["environment"]["NEO4J_AUTH"] is None
    assert not [name for name in server["environment"] if "unrestricted" in name or "apoc" in name]
    assert {name for name, service in OURS.items() if "NEO4J_PASSWORD" in service["environment"]} == {"api", "graph"}


@pytest.mark.parametrize(
    ("auth", "starts"), [("neo4j/long-enough", True), ("neo4j/", False), ("none", False), ("", False)]
)
def test_the_graph_server_does_not_start_without_a_password(tmp_path: Path, auth: str, starts: bool) -> None:
    tini = tmp_path / "tini"
    tini.write_text("#!/bin/sh\necho started $@\n")
    tini.chmod(0o755)
    shell, option, script = SERVICES["neo4j"]["entrypoint"]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **({"NEO4J_AUTH": auth} if auth else {})}
    done = subprocess.run(
        [shell, option, script.replace("$$", "$")], env=environment, capture_output=True, text=True, timeout=10
    )
    assert (done.returncode == 0) is starts
    assert ("started -g -- /startup/docker-entrypoint.sh neo4j" in done.stdout) is starts
    assert ("set NEO4J_AUTH" in done.stderr) is not starts


def test_every_file_that_the_image_copies_exists_and_is_let_in() -> None:
    let_in = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in re.findall(r"^COPY (.+)$", (REPOSITORY / "deploy/Dockerfile").read_text(), re.MULTILINE):
        for source in line.split()[:-1]:
            assert (REPOSITORY / source).exists(), f"deploy/Dockerfile copies {source}, which is not there"
            assert source in let_in, f".dockerignore keeps {source} out"


def test_settings_in_the_environment_are_settings_that_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {**SERVICES["api"]["environment"], **SERVICES["search"]["environment"]}
    for variable, value in environment.items():
        if value is not None:  # one without a value is absent unless somebody sets it
            plain = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
            monkeypatch.setenv(variable, re.sub(r"\$\{\w+:\?[^}]*\}", "secret", plain))
    settings = load_settings()
    for variable in environment:
        if variable.startswith("SLUICE_"):
            part: Any = settings
            for name in variable.removeprefix("SLUICE_").lower().split("__"):
                assert hasattr(part, name), variable
                part = getattr(part, name)
    assert settings.search.providers == ("searxng",)
    assert not settings.crawl.enabled


def test_only_the_search_pool_may_reach_the_search_engine() -> None:
    searcher = SERVICES["search"]["environment"]
    assert searcher["SLUICE_EGRESS__ALLOW_SERVICES"] == '["search=searxng:8080"]'
    assert searcher["SLUICE_SEARCH__SEARXNG_URL"] == "http://searxng:8080"
    for name in OURS.keys() - {"search"}:
        assert "SLUICE_EGRESS__ALLOW_SERVICES" not in OURS[name]["environment"], name
    assert all(service["environment"]["SLUICE_EGRESS__ALLOW"] is None for service in OURS.values()), "handed on to all"


def test_what_a_user_allows_adds_to_what_compose_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "SLUICE_EGRESS__ALLOW_SERVICES", SERVICES["search"]["environment"]["SLUICE_EGRESS__ALLOW_SERVICES"]
    )
    monkeypatch.setenv("SLUICE_EGRESS__ALLOW", '["search=other.internal:8081"]')
    rules = EgressRules(load_settings().egress)
    assert rules.check_host("searxng", 8080, "search") is None
    assert rules.check_host("other.internal", 8081, "search") is None
    assert rules.check_host("searxng", 8080, "crawl") is not None


def test_the_image_of_the_crawl_pool_alone_holds_a_browser() -> None:
    process, crawl = (REPOSITORY / "deploy/Dockerfile").read_text().split("FROM process AS crawl\n")
    assert {"chromium", "libatomic1", "playwright"} <= set(crawl.split())
    assert not {"chromium", "playwright", '".[all,neo4j]"'} & set(re.sub("#.*", "", process).split())
    assert crawl.index("USER sluice") > crawl.index("USER root")
    [tmp] = [mount for mount in SERVICES["crawl"]["tmpfs"] if mount.startswith("/tmp:")]
    assert "exec" in tmp.removeprefix("/tmp:").split(","), "engines mount a tmpfs noexec; the launcher lies there"
    assert set(SERVICES["api"]["tmpfs"][1:]) == set(SERVICES["crawl"]["tmpfs"][1:])


def _expressions() -> Iterator[tuple[str, str]]:
    for path in sorted((REPOSITORY / "deploy" / "grafana" / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}: {panel['title']}", target["expr"]
    for group in yaml.safe_load((REPOSITORY / "deploy" / "alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield f"alerts.yaml: {rule['alert']}", rule["expr"]


@pytest.mark.parametrize(("where", "expression"), list(_expressions()))
def test_dashboards_and_alerts_ask_only_for_declared_metrics(where: str, expression: str) -> None:
    asked = set(re.findall(r"\bsluice_\w+", expression))
    assert asked or "up{" in expression
    assert asked <= metric_names(), where
    assert expression.count("(") == expression.count(")")


def test_every_metric_is_shown_on_a_dashboard_or_watched_by_an_alert() -> None:
    asked = " ".join(expression for _, expression in _expressions())
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in metric_names()}
    assert [name for name in sorted(families) if name not in asked] == []


def test_prometheus_scrapes_every_process_and_grafana_finds_its_sources() -> None:
    jobs = yaml.safe_load((REPOSITORY / "deploy" / "prometheus.yaml").read_text())["scrape_configs"]
    [discovered] = [names for job in jobs for names in job["dns_sd_configs"]]
    assert set(discovered["names"]) == set(OURS)
    assert all(
        ours["environment"]["SLUICE_TELEMETRY__METRICS_ADDRESS"] == f"0.0.0.0:{discovered['port']}"
        for ours in OURS.values()
    )
    sources = yaml.safe_load((REPOSITORY / "deploy" / "grafana" / "datasources.yaml").read_text())["datasources"]
    for source in sources:
        assert source["url"].removeprefix("http://").split(":")[0] in SERVICES
    used = set(
        re.findall(
            r'"uid": "(\w+)"',
            " ".join(p.read_text() for p in (REPOSITORY / "deploy/grafana/dashboards").glob("*.json")),
        )
    )
    assert used <= {source["uid"] for source in sources}


def test_the_collector_wires_only_parts_that_it_declares() -> None:
    collector = yaml.safe_load((REPOSITORY / "deploy" / "collector.yaml").read_text())
    for pipeline in collector["service"]["pipelines"].values():
        for part, names in pipeline.items():
            assert set(names) <= set(collector[part])


def test_the_first_process_of_a_container_is_an_init_that_reaps_orphans_and_passes_signals_on() -> None:
    image = (REPOSITORY / "deploy/Dockerfile").read_text()
    assert 'ENTRYPOINT ["tini", "--"]' in image
    assert re.search(r"apt-get install [^&]*\btini\b", image)
