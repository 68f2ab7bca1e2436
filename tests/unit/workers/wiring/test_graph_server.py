"""The graph server of the settings: where its address and secret come from, and what egress says to reaching it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.errors import InvalidSetting, PolicyRefused
from sluice.ingest.settings import EgressSettings
from sluice.workers.settings import Settings, load_settings
from sluice.workers.wiring.graphs import address_rules, build_graph_server

URL = "bolt://localhost:7687"
SECRET = "hunter2-hunter2"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A working directory without settings, and no variables for Neo4j."""
    monkeypatch.chdir(tmp_path)
    for name in ("NEO4J_URI", "NEO4J_USER", "NEO4J_PASSWORD", "SLUICE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_variables_for_neo4j_count_where_nothing_else_is_said(environment: pytest.MonkeyPatch) -> None:
    for name, value in (("NEO4J_URI", URL), ("NEO4J_USER", "reader"), ("NEO4J_PASSWORD", SECRET)):
        environment.setenv(name, value)
    Path("sluice.toml").write_text('[graph]\nuser = "writer"\n')
    graph = load_settings().graph
    assert (graph.url, graph.user) == (URL, "writer")
    assert graph.password is not None
    assert graph.password.get_secret_value() == SECRET
    environment.setenv("SLUICE_GRAPH__URL", "bolt+s://other:7687")
    settings = load_settings()
    assert settings.graph.url == "bolt+s://other:7687"
    assert SECRET not in repr(settings) + settings.model_dump_json()


def test_empty_variables_say_nothing(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("NEO4J_URI", "")
    assert load_settings().graph.url is None
    assert build_graph_server(load_settings().graph, EgressSettings()) is None


def test_a_wrong_address_is_named_by_its_variable_and_not_shown(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("NEO4J_URI", f"bolt://neo4j:{SECRET}@localhost:7687")
    with pytest.raises(InvalidSetting, match="NEO4J_URI: holds a user or password") as refused:
        load_settings()
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("egress", "host", "port", "lifted_by"),
    [
        ({}, "localhost", 7687, None),
        ({}, "localhost", 7688, "graph=localhost:7688"),
        ({}, "10.0.0.8", 7687, "graph=10.0.0.8:7687"),
        ({"allow": ("graph=10.0.0.8:7687",)}, "10.0.0.8", 7687, None),
        ({"allow": ("crawl=10.0.0.8:7687",)}, "10.0.0.8", 7687, "graph=10.0.0.8:7687"),
        ({"policy": "deny"}, "localhost", 7687, "egress.policy"),
        ({"policy": "listed"}, "localhost", 7687, "graph=localhost:7687"),
        ({"policy": "listed", "allow": ("graph=localhost:7687",)}, "localhost", 7687, None),
        ({"allow_domains": ("example.org",)}, "localhost", 7687, "graph=localhost:7687"),
        ({"deny_domains": ("localhost",)}, "localhost", 7687, "graph=localhost:7687"),
    ],
)
def test_the_named_server_is_reached_and_others_only_where_they_are_listed(
    egress: dict[str, Any], host: str, port: int, lifted_by: str | None
) -> None:
    check = address_rules(URL, EgressSettings(**egress))
    if lifted_by is None:
        check(host, port)
        return
    with pytest.raises(PolicyRefused) as refused:
        check(host, port)
    assert lifted_by in refused.value.lifted_by


def test_an_entry_that_opens_the_graph_server_to_pages_has_to_say_so(environment: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSetting, match="write graph=localhost:7687"):
        Settings.model_validate({"graph": {"url": "bolt://localhost"}, "egress": {"allow": ["localhost:7687"]}})
