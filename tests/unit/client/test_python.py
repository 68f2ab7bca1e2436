"""The client runs on the oldest Python that its distribution names, and importing it costs little."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[3] / "clients" / "python"
OLDEST = (3, 10)
SINCE_3_11 = {
    "tomllib": {"*"},
    "enum": {"StrEnum", "ReprEnum", "verify", "member", "nonmember"},
    "datetime": {"UTC"},
    "asyncio": {"TaskGroup", "timeout", "Runner", "Barrier"},
    "contextlib": {"chdir"},
    "typing": {"Self", "Never", "LiteralString", "NotRequired", "Required", "Unpack", "TypeVarTuple", "assert_never",
               "assert_type", "reveal_type", "dataclass_transform", "override"},
}  # fmt: skip
"""Names of the standard library that are newer, by module; `*` stands for the module itself."""


def test_the_distribution_names_that_python() -> None:
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={OLDEST[0]}.{OLDEST[1]}"


@pytest.mark.parametrize("path", sorted(CLIENT.rglob("*.py")), ids=lambda path: path.stem)
def test_every_file_is_python_of_that_version(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=OLDEST)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not {one.name for one in node.names} & SINCE_3_11.get(node.module or "", set()), node.lineno
            assert SINCE_3_11.get(node.module or "") != {"*"}, node.lineno
        elif isinstance(node, ast.Import):
            assert not any(SINCE_3_11.get(one.name) == {"*"} for one in node.names), node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert node.attr not in SINCE_3_11.get(node.value.id, set()), node.lineno


def test_importing_the_clients_imports_neither_httpx2_nor_pydantic() -> None:
    code = "import sys, sluice_client.client; print(sorted({'httpx2', 'pydantic', 'asyncio'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
