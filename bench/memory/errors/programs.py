"""Broken programs and the errors that running them must tell, as `programs/*.txt` writes them.

    === name of the program
    $ command                  a run; in braces what is special about it (below)
    --- path/of/file.py
    total = price * count  «Runtime»      this line has an error of this type; the mark is cut when it is written

Of a run: `{expect: Type path line; …}` instead of the marks (`-` for none), `{only=1,3}` the first and third of the
marks, `{no lines}` the command tells no lines, `{crlf}` lines end as on a terminal of Windows, `{no command}` and
`{no exit}`: the reader is told neither command nor exit status.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "programs"

Expected = tuple[str, str | None, int | None]
_MARK = re.compile(r"  (?=«)|«(\w+)»")
_FLAG = re.compile(r"\{(expect: [^}]*|only=[\d,]+|no lines|no command|no exit|crlf)\} ?")


@dataclass(frozen=True, slots=True)
class Run:
    """A command in a program's folder, and the errors (type, file, line) that it tells."""

    command: str
    expected: tuple[Expected, ...]
    crlf: bool = False
    command_known: bool = True
    exit_known: bool = True


@dataclass(frozen=True, slots=True)
class Program:
    """Files by path, and what is run on them."""

    tool: str
    name: str
    files: dict[str, str]
    runs: tuple[Run, ...]


def read_programs(path: Path) -> list[Program]:
    """The programs of one file; its name is the tool's."""
    return [_program(path.stem, part) for part in re.split(r"^=== ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]]


def _program(tool: str, text: str) -> Program:
    head, *parts = re.split(r"^--- ", text, flags=re.MULTILINE)
    name, *commands = [line for line in head.split("\n") if line]
    files: dict[str, str] = {}
    marked: list[Expected] = []
    for part in parts:
        path, _, body = part.partition("\n")
        for number, line in enumerate(body.split("\n"), start=1):
            marked += [(kind, path, number) for kind in re.findall(r"«(\w+)»", line)]
        files[path] = _MARK.sub("", body)
    return Program(tool, name, files, tuple(_run(line.removeprefix("$ "), marked) for line in commands))


def _run(line: str, marked: list[Expected]) -> Run:
    flags = _FLAG.findall(line)
    expected = list(marked)
    for flag in flags:
        if flag.startswith("only="):
            expected = [marked[int(number) - 1] for number in flag[5:].split(",")]
        elif flag.startswith("expect: "):
            expected = [_expected(one) for one in flag[8:].split(";") if one.strip()]
        elif flag == "no lines":
            expected = [(kind, path, None) for kind, path, _ in expected]
    return Run(
        _FLAG.sub("", line).strip(), tuple(expected), "crlf" in flags, "no command" not in flags, "no exit" not in flags
    )


def _expected(text: str) -> Expected:
    kind, path, line = text.split()
    return kind, None if path == "-" else path, None if line == "-" else int(line)
