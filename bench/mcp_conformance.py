"""The door for agents, tried by the protocol's own suite in both of its eras, and `sluice-mcp` by the inspector.

    python -m bench.mcp_conformance FOLDER

The suite calls tools of its own (`test_image_content` and the like). The SDK's everything-server has them, and is put
behind our door; a check of a tool that is not there can pass as well, so that the suite says nothing about our own
tools, which `tests/integration/mcp` holds. FOLDER takes the packages of npm (node 22 among them) and the SDK's source;
what is there already is not fetched again. The counts are those of the suite's files: it exits with 0 although some
fail. Prints one JSON object.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sluice.api import mcp as door
from sluice.workers.settings import Settings
from tests.support.mcp_clients import STDIO, environment
from tests.support.served import served
from tests.support.valkey import Valkey

SUITES = {"0.1.16": (), "0.2.0-alpha.12": ("--requirements", "2026-07-28")}
"""Versions of the suite, the first for the older era and the second for the other; their further arguments."""
NODE, INSPECTOR = "node@22", "@modelcontextprotocol/inspector@2.12.0"
EVERYTHING = "examples/servers/everything-server/mcp_everything_server/server.py"
RUN_SECONDS = 900


def main() -> None:
    """Fetch what is missing, run everything, print the counts."""
    folder = Path(sys.argv[1]).resolve()
    node = _installed(folder / "node", NODE, INSPECTOR)
    everything = _source(folder)
    with tempfile.TemporaryDirectory() as data:
        broker = Valkey(Settings(data_dir=Path(data)))
        broker.start()
        try:
            told: dict[str, Any] = {}
            with _put_behind_the_door(everything), served(broker.settings) as address:
                for release, arguments in SUITES.items():
                    suite = _installed(folder / release, f"@modelcontextprotocol/conformance@{release}")
                    told[release] = _counted(node, suite, f"{address}/mcp", arguments)
            with served(broker.settings) as address:
                told["inspector"] = _inspected(node, address)
        finally:
            broker.kill()
    print(json.dumps(told, indent=2))


def _installed(folder: Path, *packages: str) -> Path:
    """Return the folder of the commands of some packages of npm."""
    commands = folder / "node_modules" / ".bin"
    if not commands.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", *packages], cwd=folder, check=True)
    return commands


def _source(folder: Path) -> Path:
    """Return the everything-server of the SDK's release that is installed here."""
    release = f"mcp-{version('mcp')}"
    if not (folder / release / EVERYTHING).exists():
        ask = [sys.executable, "-m", "pip", "download", f"mcp=={version('mcp')}", "--no-binary", "mcp", "--no-deps"]
        subprocess.run([*ask, "-d", str(folder)], check=True, stdout=sys.stderr)
        with tarfile.open(folder / f"{release}.tar.gz") as packed:
            packed.extractall(folder, filter="data")
    return folder / release / EVERYTHING


class _put_behind_the_door:  # noqa: N801 - reads as a verb
    """Has the door serve the module's server in place of our tools."""

    def __init__(self, module: Path) -> None:
        spec = importlib.util.spec_from_file_location("everything", module)
        assert spec
        assert spec.loader
        loaded = sys.modules["everything"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        self._tools = SimpleNamespace(make_server=lambda _client, **_named: loaded.mcp)
        self._real: Callable[[], SimpleNamespace] = door._imported  # noqa: SLF001

    def __enter__(self) -> None:
        door._imported = lambda: SimpleNamespace(**{**vars(self._real()), "tools": self._tools})  # noqa: SLF001

    def __exit__(self, *_: object) -> None:
        door._imported = self._real  # noqa: SLF001


def _counted(node: Path, suite: Path, url: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    """Run the suite; count its checks by what became of them, and name the scenarios in which some fail."""
    with tempfile.TemporaryDirectory() as results:
        command = [node / "node", suite / "conformance", "server", "--url", url, "-o", results, *arguments]
        subprocess.run(command, check=False, stdout=sys.stderr, timeout=RUN_SECONDS)
        counts, failing = Counter[str](), dict[str, list[str]]()
        for file in sorted(Path(results).rglob("checks.json")):
            for check in json.loads(file.read_text()):
                counts[check["status"]] += 1
                if check["status"] == "FAILURE":
                    scenario = re.sub(r"^server-|-\d{4}-.*", "", file.parent.name)
                    failing.setdefault(scenario, []).append(f"{check['id']}: {check.get('errorMessage', '')}")
    return {"checks": dict(counts), "failing": failing}


def _inspected(node: Path, address: str) -> dict[str, Any]:
    """Ask `sluice-mcp` over stdio for its tools, and for one call."""

    def ask(*method: str) -> dict[str, Any]:
        of_server = environment(address)
        passed_on = [f"-e{name}={of_server[name]}" for name in ("PYTHONPATH", "SLUICE_URL")]
        command = [node / "node", node / "mcp-inspector", "--cli", *STDIO, *passed_on, "--method", *method]
        environ = {**os.environ, "PATH": f"{node}:{os.environ['PATH']}"}
        done = subprocess.run(command, env=environ, check=False, stdout=subprocess.PIPE, text=True, timeout=RUN_SECONDS)
        if done.returncode:
            raise SystemExit(f"the inspector ended with {done.returncode}")
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    listed = ask("tools/call", "--tool-name", "sluice_list", "--tool-arg", "what=prompts")
    return {"tools": len(ask("tools/list")["tools"]), "sluice_list": listed["structuredContent"]}


if __name__ == "__main__":
    main()
