"""A tool's output as its readers see it: plain lines, of which each is given to one error only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from sluice.memory.extraction.errors.project import Project

MAX_CHARACTERS = 250_000
MAX_LINES = 8_000
MAX_LINE_CHARACTERS = 2_000

_CONTROL = re.compile(
    r"\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?"  # OSC: window titles and hyperlinks
    r"|\x1b[PX^_][^\x1b\n]{0,4096}\x1b\\"
    r"|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor
    r"|\x1b[ -/]{0,4}[0-~]"
    r"|\x9b[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"
)

_MOVE = re.compile(r"g?make(?:\[\d+\])?: (?P<way>Enter|Leav)ing directory ['`](?P<path>[^']{1,400})'$")


class Output:
    """The lines of an output; `taken` are those that an earlier reader explained."""

    def __init__(self, text: str, project: Project, words: frozenset[str], unfold: Callable[[str], str]) -> None:
        self.text = unfold(plain(text))
        self._whole = self.text.split("\n")
        self.lines = [line if len(line) <= MAX_LINE_CHARACTERS else line[:MAX_LINE_CHARACTERS] for line in self._whole]
        self.project = project
        self.words = words
        """Programs of the command (`mypy`, `go`, `go vet`)."""
        self.taken = bytearray(len(self.lines))
        self._moves: list[tuple[int, str | None]] | None = None

    def having(self, part: str) -> Iterator[tuple[int, str]]:
        """Lines that hold `part` and are not taken, with their numbers from 0."""
        if part not in self.text:
            return
        taken = self.taken
        for number, line in enumerate(self.lines):
            if part in line and not taken[number]:
                yield number, line

    def line(self, number: int) -> str:
        """The line of this number, empty beyond the ends."""
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    def whole(self, number: int) -> str:
        """The line of this number, however long it is."""
        return self._whole[number]

    def folder_at(self, number: int) -> str | None:
        """The folder that make said it entered before this line; None where it said nothing."""
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
            if found := _MOVE.match(line):
                if found["way"] == "Enter":
                    stack.append(found["path"])
                elif stack:
                    stack.pop()
                moves.append((number, stack[-1] if stack else None))
        return moves

    def take(self, first: int, last: int) -> None:
        """Lines [first, last] are explained; later readers pass over them."""
        last = min(last, len(self.lines) - 1)
        if first <= last:
            self.taken[first : last + 1] = b"\1" * (last + 1 - first)


def plain(text: str) -> str:
    """`text` without colours, window titles and control characters, in lines that end in a newline.

    Of what is too long the middle goes: tools say what failed at the head or at the end.
    """
    if len(text) > MAX_CHARACTERS:
        half = MAX_CHARACTERS // 2
        text = text[:half] + "\n" + text[-half:]
    if "\x1b" in text or "\x9b" in text or not text.isprintable():
        text = _CONTROL.sub("", text)
    if "\r" in text:
        text = text.replace("\r\r\n", "\n").replace("\r\n", "\n")
        if "\r" in text:
            text = "\n".join(_overwritten(line) for line in text.split("\n"))
    if text.count("\n") > MAX_LINES:
        lines = text.split("\n")
        text = "\n".join([*lines[: MAX_LINES // 2], *lines[-MAX_LINES // 2 :]])
    return text


def _overwritten(line: str) -> str:
    """What a terminal shows of a line that went back to its start: the last piece that holds something."""
    if "\r" not in line:
        return line
    return next((piece for piece in reversed(line.split("\r")) if piece.strip()), "")
