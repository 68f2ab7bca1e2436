"""The description of the HTTP interface in the hands of other people's tools: a fuzzer, a linter, a compiler.

The tools come from their registries, by uv and npm, each by its version.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.instance import Instance

pytestmark = pytest.mark.timeout(1_800)

UV = Path(sys.executable).with_name("uv")
SCHEMATHESIS = "schemathesis==4.32.5"
NODE = (
    "@stoplight/spectral-cli@6.16.3",
    "openapi-typescript@7.13.0",
    "openapi-fetch@0.17.0",
    "typescript@5.9.3",
    "@types/node@20",
)
CASES = 2_500
SEED = "30"
"""The same cases in every run, so that a change that breaks nothing never fails here."""
CALLED_OFF = ("runs_events", "stages_pause", "stages_resize", "keys_create", "keys_change", "keys_revoke")
"""A stream without an end; what would stop the instance; what would lock the fuzzer out."""
PROGRAM = Path(__file__).with_name("interface.ts")
CONFIG = {
    "compilerOptions": {"strict": True, "target": "es2022", "module": "nodenext", "types": ["node"], "outDir": "out"},
    "files": ["interface.ts", "api.d.ts"],
}

READ_LENIENTLY = re.compile(r"Incorrect type|violates `type`")
"""0 and 1 stand for false and true, and numbers for moments, as pydantic reads them."""
OF_AN_ID = re.compile(r"unsupported_method .* /v1/documents/.*/(text|chunks|links)$")
"""A document's id may hold slashes, so that such a path is a document's too."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tools of Node."""
    if not shutil.which("npm"):
        pytest.skip("needs Node.js with npm")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    made = subprocess.run(["npm", "install", "--no-audit", "--no-fund", *NODE], cwd=folder, capture_output=True)
    if made.returncode:
        pytest.skip(f"npm installs nothing here: {made.stderr.decode()[-300:]}")
    return folder


@pytest.fixture(scope="module")
def description(offline: Instance, node: Path) -> Path:
    file = node / "openapi.json"
    file.write_text(offline.http.get("/openapi.json").text)
    return file


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_linter_finds_no_error(description: Path) -> None:
    (description.parent / ".spectral.yaml").write_text("extends: ['spectral:oas']")
    told = run("npx", "spectral", "lint", description.name, "-f", "json", "--quiet", folder=description.parent)
    found = [one for one in json.loads(told or "[]") if one["severity"] == 0]
    assert found == []


def test_a_program_in_typescript_compiles_and_asks(offline: Instance, description: Path) -> None:
    folder = description.parent
    (folder / "tsconfig.json").write_text(json.dumps(CONFIG))
    shutil.copy(PROGRAM, folder)
    run("npx", "openapi-typescript", description.name, "--default-non-nullable=false", "-o", "api.d.ts", folder=folder)
    run("npx", "tsc", "-p", ".", folder=folder)
    told = json.loads(run("node", "out/interface.js", offline.url, folder=folder))
    assert told == {"cited": ["lease:1-1"], "documents": 1, "refused": "not_found"}


@pytest.mark.parametrize("with_key", [False, True], ids=["without keys", "with a key"])
def test_a_fuzzer_finds_no_fault(tmp_path: Path, *, with_key: bool) -> None:
    if not UV.is_file():
        pytest.skip("needs uv")
    with Instance(tmp_path / "instance") as instance:
        key = instance.http.post("/v1/keys", json={"name": "fuzzer", "role": "operator"}).json() if with_key else {}
        report = fuzzed(instance, key.get("key"), tmp_path)
        assert instance.http.get("/livez").status_code == 200
    cases, faults = judged(report)
    assert cases >= CASES
    assert faults == {}


def fuzzed(instance: Instance, key: str | None, folder: Path) -> Path:
    report = folder / "report.ndjson"
    assert instance.http.get("/openapi.json").status_code == 200, "it is made once, and the fuzzer waits ten seconds"
    command = [UV, "tool", "run", "--from", SCHEMATHESIS, "schemathesis", "run", f"{instance.url}/openapi.json"]
    command += ["--checks", "all", "--phases", "coverage,fuzzing", "-n", "8", "--workers", "1", "--no-shrink"]
    command += ["--seed", SEED]
    command += ["--continue-on-failure", "--generation-database", "none", "--request-timeout", "60"]
    command += ["--report", "ndjson", "--report-ndjson-path", report]
    command += [part for name in CALLED_OFF for part in ("--exclude-operation-id", name)]
    command += ["-H", f"Authorization: Bearer {key}"] if key else []
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1_500, check=False)
    if not report.is_file():
        pytest.skip(f"schemathesis did not begin: {(done.stdout + done.stderr)[-300:]}")
    return report


def judged(report: Path) -> tuple[int, dict[str, int]]:
    """The number of cases, and the failed checks that are faults, with how often each was found."""
    cases, faults = 0, Counter[str]()
    for line in report.read_text().splitlines():
        scenario = json.loads(line).get("ScenarioFinished")
        if scenario is None:
            continue
        recorder = scenario["recorder"]
        cases += len(recorder.get("cases") or ())
        for case, check in failed(recorder):
            told = f"{check['name']} of {recorder['label']}"
            if not OF_AN_ID.match(told) and not is_known(check, case):
                faults[f"{told}: {check['failure_info']['failure'].get('message', '')[:200]} {said(case)[:200]}"] += 1
    return cases, dict(faults)


def failed(recorder: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    interactions = recorder.get("interactions") or {}
    for case, checks in (recorder.get("checks") or {}).items():
        yield from ((interactions.get(case) or {}, check) for check in checks if check["status"] != "success")


def is_known(check: dict[str, Any], case: dict[str, Any]) -> bool:
    status = (case.get("response") or {}).get("status_code")
    match check["name"]:
        case "positive_data_acceptance":
            return said(case) != ""  # a rule on what a value says, which no schema can hold: a refusal names the part
        case "negative_data_rejection":
            return status == 431 or bool(READ_LENIENTLY.search(check["failure_info"]["failure"].get("message", "")))
        case _:
            return False


def said(case: dict[str, Any]) -> str:
    """What the problem in a response says of each wrong part that it names."""
    body = ((case.get("response") or {}).get("content") or {}).get("$base64", "")
    try:
        problem = json.loads(base64.b64decode(body))
    except ValueError:
        return ""
    names = ("pointer", "parameter", "header")
    wrong = [
        (next((one[name] for name in names if name in one), ""), one["detail"]) for one in problem.get("errors", ())
    ]
    return "; ".join(f"{name} {detail}" for name, detail in wrong)
