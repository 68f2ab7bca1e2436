"""A tool's output as its matchers see it: plain lines, each used for one error only, and the project's paths."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from sluice.memory.extraction.paths import ProjectPaths, is_relative
from sluice.text.pattern_file import PatternFile

TABLE = PatternFile(Path(__file__).with_name("matchers.toml"))

MAX_CHARACTERS = 250_000
MAX_LINES = 8_000
MAX_LINE_CHARACTERS = 2_000


_NO_FILES = ("stdin", "-", "string", "native", "eval", "evalmachine.")
"""Names that tools print for code that lies in no file."""


@dataclass(frozen=True, slots=True)
class Project:
    """The project's folder (None: unknown) and the folder that the command ran in, below it or beside it."""

    root: str | None = None
    folder: str | None = None

    @classmethod
    def of(cls, root: str | None, moved: str | None = None) -> Project:
        """Build a project in `root`; `moved` is the folder that the command changed to (`cd moved && …`)."""
        if root is not None:
            root = posixpath.normpath(root.replace("\\", "/"))
        return cls(root, posixpath.normpath(posixpath.join(root or "", moved)) if moved else root)

    def locate(self, path: str | None, folder: str | None = None) -> tuple[str | None, bool]:
        """Return `path` relative to the root, and whether it lies outside. `folder` replaces the command's own."""
        if not path or path.startswith("<") or path in _NO_FILES:
            return None, False
        if path.startswith("file://"):
            path = unquote(path.removeprefix("file://"))
        if is_relative(path):
            path = posixpath.join(folder or self.folder or "", path)
        inside = ProjectPaths.of(self.root).find(path)
        if (
            inside is None
            or TABLE["installed"].search(inside)
            or (self.root == "/" and TABLE["system"].match(f"/{inside}"))
        ):
            return None, True
        return inside, False

    def anchored(self, path: str) -> str:
        """Return `path`, placed below the root if it already begins with the folder that the command changed to.

        Cargo names files from the workspace's folder, wherever it was started.
        """
        if self.root is None or self.folder is None or self.folder == self.root or path.startswith("/"):
            return path
        moved = posixpath.relpath(self.folder, self.root)
        return posixpath.join(self.root, path) if path.startswith(moved + "/") else path

    def holds(self, path: str) -> bool:
        """Return whether `path` is a file of the project and not of an installed library."""
        return self.locate(path)[0] is not None


class Output:
    """Lines of an output; `taken` marks those that an earlier reader explained."""

    def __init__(self, text: str, project: Project, words: frozenset[str], unfold: Callable[[str], str]) -> None:
        self.text = unfold(plain(text))
        self._whole = self.text.split("\n")
        self.lines = [line if len(line) <= MAX_LINE_CHARACTERS else line[:MAX_LINE_CHARACTERS] for line in self._whole]
        self.project = project
        self.words = words
        """Programs of the command (`mypy`, `go`, `go vet`) and its arguments."""
        self.taken = bytearray(len(self.lines))
        self._moves: list[tuple[int, str | None]] | None = None

    def having(self, part: str) -> Iterator[tuple[int, str]]:
        """Yield the lines that hold `part` and are not taken, with their numbers from 0."""
        if part not in self.text:
            return
        taken = self.taken
        for number, line in enumerate(self.lines):
            if part in line and not taken[number]:
                yield number, line

    def line(self, number: int) -> str:
        """Return the line of this number, or "" beyond the ends."""
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    def whole(self, number: int) -> str:
        """Return the line of this number at its full length."""
        return self._whole[number]

    def folder_at(self, number: int) -> str | None:
        """Return the folder that make reported entering before this line; None if it reported none."""
        if self._moves is None:
            self._moves = self._read_moves()
        folder = None
        for at, entered in self._moves:
            if at > number:
                break
            folder = entered
        return folder

    def _read_moves(self) -> list[tuple[int, str | None]]:
        moves: list[tuple[int, str | None]] = []
        stack: list[str] = []
        for number, line in self.having("ing directory ") if "make" in self.text else ():
            if found := TABLE["move"].match(line):
                if found["way"] == "Enter":
                    stack.append(found["path"])
                elif stack:
                    stack.pop()
                moves.append((number, stack[-1] if stack else None))
        return moves

    def take(self, first: int, last: int) -> None:
        """Mark the lines [first, last] as explained; later readers pass over them."""
        last = min(last, len(self.lines) - 1)
        if first <= last:
            self.taken[first : last + 1] = b"\1" * (last + 1 - first)


def plain(text: str) -> str:
    """Return `text` without colours, window titles and control characters, in lines that end in a newline.

    Cuts the middle out of a long text: tools report failures at the head or at the end.
    """
    if len(text) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2
        text = text[:half] + "\n" + text[-half:]
    if "\x1b" in text or "\x9b" in text or not text.isprintable():
        text = TABLE["control"].sub("", text)
    if "\r" in text:
        text = text.replace("\r\r\n", "\n").replace("\r\n", "\n")
        if "\r" in text:
            text = "\n".join(_overwritten(line) for line in text.split("\n"))
    if text.count("\n") > MAX_LINES:
        lines = text.split("\n")
        text = "\n".join([*lines[: MAX_LINES // 2], *lines[-MAX_LINES // 2 :]])
    return text


def _overwritten(line: str) -> str:
    """Return what a terminal shows of a line with carriage returns: the last piece that is not blank."""
    if "\r" not in line:
        return line
    return next((piece for piece in reversed(line.split("\r")) if piece.strip()), "")
