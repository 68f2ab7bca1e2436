"""Every package of the tree is built, checked and copied into the image; no list of packages lacks one."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from tests.support.repository import REPOSITORY

PACKAGES = sorted(
    path.parent.name for path in REPOSITORY.glob("*/__init__.py") if path.parent.name not in ("bench", "tests")
)
FOLDERS = sorted([*PACKAGES, "docs"])
"""What is packed: the manual is served by the instance."""
PYPROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
TOOLS = PYPROJECT["tool"]


def test_the_wheel_the_type_checker_and_the_import_linter_cover_every_package() -> None:
    build = TOOLS["hatch"]["build"]["targets"]
    assert build["wheel"]["only-include"] == ["src/sluice/__init__.py", "src/sluice/py.typed", *FOLDERS]
    assert build["wheel"]["sources"] == {"src/sluice": "sluice"} | {name: f"sluice/{name}" for name in FOLDERS}
    assert build["sdist"]["exclude"] == ["/clients", "/src/sluice_client", *(f"/src/sluice/{name}" for name in FOLDERS)]
    assert TOOLS["mypy"]["packages"] == TOOLS["importlinter"]["root_packages"] == ["sluice", "sluice_client"]


def test_the_import_root_links_to_every_package() -> None:
    root = REPOSITORY / "src" / "sluice"
    assert {path.name: path.readlink().as_posix() for path in root.iterdir() if path.is_symlink()} == {
        name: f"../../{name}" for name in FOLDERS
    }


def test_the_layer_contract_places_every_package() -> None:
    [layers] = [contract for contract in TOOLS["importlinter"]["contracts"] if contract["name"] == "Imports point down"]
    assert sorted(name for layer in layers["layers"] for name in layer.split(" | ")) == PACKAGES


def test_the_image_copies_every_package_and_the_metadata_of_the_wheel() -> None:
    copied = re.findall(r"^COPY (.+)$", (REPOSITORY / "deploy/Dockerfile").read_text(), re.MULTILINE)
    sources = {source for line in copied for source in line.split()[:-1]}
    project = PYPROJECT["project"]
    assert sources == {
        *FOLDERS,
        "src",
        "clients/python",
        "pyproject.toml",
        "constraints.txt",
        project["readme"],
        *project["license-files"],
    }


def test_the_import_root_says_that_it_is_typed() -> None:
    assert (REPOSITORY / "src" / "sluice" / "py.typed").exists()


def test_constraints_pin_versions_and_hold_no_addresses() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[\w.+!]+", line)] == []
