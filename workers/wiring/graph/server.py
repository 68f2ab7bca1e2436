"""The graph server that the settings name, and whether the rules of egress let it be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.contracts.errors import PolicyRefused
from sluice.graph.settings import GraphSettings, address_of

if TYPE_CHECKING:
    from sluice.graph.servers.client import CheckAddress
    from sluice.graph.servers.server import GraphServer
    from sluice.ingest.settings import EgressSettings


def build_graph_server(settings: GraphSettings, egress: EgressSettings) -> GraphServer | None:
    """The server of `graph.url`; None where none is named. Opens nothing, and does not load the driver."""
    if settings.url is None:
        return None
    from sluice.graph.servers.server import GraphServer

    return GraphServer(settings, address_rules(settings.url, egress))


def address_rules(url: str, egress: EgressSettings) -> CheckAddress:
    """The rules of egress for connections to the graph server at `url`, which its owner has named.

    What is named may have a private address and a port that is not of the web, as an entry of `egress.allow` might.
    Where only what is listed may be reached it has to be listed all the same, and where nothing may leave it is
    refused. Any other address comes from the server itself, which may name members of its cluster: those need an entry
    `graph=host:port`.
    """
    from sluice.ingest.egress.rules import EgressRules

    rules, named = EgressRules(egress), address_of(url)
    has_list = egress.policy == "listed" or bool(egress.allow_domains)

    def check(host: str, port: int) -> None:
        refusal = rules.check_host(host, port, "graph")
        is_own = (host, port) == named and refusal is not None and refusal.rule in ("host", "port")
        if refusal is None or (is_own and not has_list):
            return
        lifted_by = "egress.policy" if refusal.rule == "policy" else f'egress.allow = ["graph={host}:{port}"]'
        raise PolicyRefused("egress", f"the graph server {host}:{port} may not be reached: {refusal.detail}", lifted_by)

    return check
