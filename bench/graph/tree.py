"""Files of a folder as the graph reads them."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = {".py", ".js", ".ts", ".go", ".rs", ".java", ".c", ".h", ".cpp", ".md", ".rst"}
MOST_BYTES = 1_000_000
LEFT_OUT = {".git", ".venv", "__pycache__", "node_modules", "site-packages"}


def read_tree(tree: Path) -> dict[str, str]:
    """The text of each file that the graph reads, by its path below `tree`."""
    found: dict[str, str] = {}
    for path in sorted(tree.rglob("*")):
        inside = path.relative_to(tree)
        if LEFT_OUT.intersection(inside.parts) or path.suffix not in SUFFIXES:
            continue
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            found[inside.as_posix()] = path.read_text(errors="replace")
    return found
