"""How large the project may be: `python .ci/budget.py` holds the tree against `.ci/budget.toml`.

Whoever raises a figure names in the commit what was cut for it, or what asks for it. `--list` shows what stands.
"""

# ruff: noqa: T201, S603, S607 (it talks to a terminal and asks git for its files)

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = frozenset({"tests", "bench", "src", ".ci", "docs"})
"""Python that is no part of the product."""


def main(arguments: list[str]) -> int:
    """Print what exceeds its budget; 1 if something does."""
    budget = tomllib.loads((ROOT / ".ci" / "budget.toml").read_text())
    standing = measure()
    if "--list" in arguments:
        for name, figure in standing.items():
            print(f"{name} = {figure}  # of {_allowed(budget, name)}")
    over = [
        f"{name} is {figure}, and {allowed} is allowed"
        for name, figure in standing.items()
        if figure > (allowed := _allowed(budget, name))
    ]
    print("\n".join(over) or "within .ci/budget.toml")
    return 1 if over else 0


def measure() -> dict[str, int]:
    """Return each figure by its dotted name, as in `.ci/budget.toml`."""
    product = [path for path in _files("*.py") if path.parts[0] not in OUTSIDE]
    lines = {path: (ROOT / path).read_text().splitlines() for path in product}
    packages: Counter[str] = Counter()
    for path, text in lines.items():
        packages[path.parts[0]] += len(text)
    folders = Counter(path.parent for path in product if path.parts[0] != "clients")
    docs = [path for path in _files("*.md") if path.parts[0] == "docs" or len(path.parts) == 1]
    return {
        **{f"lines.{name}": count for name, count in sorted(packages.items())},
        "lines.all": sum(packages.values()),
        "files_per_folder": max(folders.values()),
        "folders_below_one_another": max(len(folder.parts) for folder in folders),
        "words_of_docs": sum(len((ROOT / path).read_text().split()) for path in docs if path.name != "CHANGELOG.md"),
        "dependencies": len(_project()["dependencies"]),
        "settings": _settings(),
        "commands": _commands(),
    }


def _allowed(budget: dict[str, int | dict[str, int]], name: str) -> int:
    table, _, key = name.rpartition(".")
    held = budget.get(table, {}) if table else budget
    allowed = held.get(key, 0) if isinstance(held, dict) else 0
    return allowed if isinstance(allowed, int) else 0


def _files(pattern: str) -> list[PurePosixPath]:
    listed = subprocess.run(["git", "ls-files", "-z", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return [PurePosixPath(name) for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def _project() -> dict[str, list[str]]:
    project: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def _settings() -> int:
    from sluice.workers.setting_names import names_of
    from sluice.workers.settings import Settings

    return len(names_of(Settings))


def _commands() -> int:
    """Commands that do something, groups and hidden aliases not counted."""
    from sluice.cli.main import COMMANDS, load

    return sum(sum(1 for _ in _leaves(load(name))) for name in COMMANDS)


def _leaves(command: object) -> Iterator[object]:
    if getattr(command, "hidden", False):
        return
    below = getattr(command, "commands", None)
    if below is None:
        yield command
    else:
        for one in below.values():
            yield from _leaves(one)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
