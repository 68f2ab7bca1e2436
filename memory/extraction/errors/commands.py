"""Parses a shell command: its programs, whether they only show files, and whose exit status counts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sluice.memory.extraction.shell import known, programs, simple_commands

MAX_CHARACTERS = 20_000
MAX_DEPTH = 4
_LENIENT = frozenset(
    ("--exit-zero", "--exit-zero-even-if-changed", "-k", "--keep-going", "--no-error-on-unmatched-pattern")
)


@dataclass(frozen=True, slots=True)
class Step:
    """One simple command: its program (`python -m pytest` is `pytest`), its words, and what joins it to the next."""

    program: str
    words: tuple[str, ...]
    then: str

    @property
    def reads(self) -> bool:
        """Whether it only shows what lies in files, logs or the history of git."""
        program, words = self.program, self.words[1:]
        if program == "sed":
            return not any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in words)
        if program == "find":
            return not {"-exec", "-execdir"} & set(words)
        if program in known("readers") or {"--help", "--version"} & set(words):
            return True
        subcommands = programs()["subcommand_readers"].get(program, "").split()
        operands = (one for before, one in pairwise(["", *words]) if one[:1] != "-" and before not in ("-C", "-c"))
        return next(operands, "") in subcommands or "--explain" in words[:1]


@dataclass(frozen=True, slots=True)
class Commands:
    """The steps of a command; `folder` is where a leading `cd` went.

    `strict` and `pipefail` are those of `set -e` and `set -o pipefail`; `looped`: a loop's status is its last round's.
    """

    steps: tuple[Step, ...]
    folder: str | None = None
    strict: bool = False
    pipefail: bool = False
    looped: bool = False

    def doubtful(self) -> tuple[Step, ...]:
        """Steps that may have failed although the whole exited with 0: before a pipe, a `;` or an `||`."""
        if self.looped:
            return self.steps
        found = []
        for number, step in enumerate(self.steps):
            kept = (
                step.then in ("", "&&")
                or (step.then in ("|", "|&") and self.pipefail)
                or (step.then in (";", "\n") and self.strict)
            )
            last = all(one.then in (";", "\n", "") and one.program in ("", "cd") for one in self.steps[number:])
            if not (kept or last) or (_LENIENT & set(step.words) and step.program in ("ruff", "flake8", "pylint")):
                found.append(step)
        return tuple(found)


def read_command(command: str) -> Commands:
    """The steps of a POSIX shell command, with those of `bash -c` in it. Here-documents are not part of it."""
    steps: list[Step] = []
    flags = {"strict": False, "pipefail": False, "looped": False}
    folder = _read(command[:MAX_CHARACTERS], steps, flags, 0)
    return Commands(tuple(steps), folder, **flags)


def _read(text: str, steps: list[Step], flags: dict[str, bool], depth: int) -> str | None:
    folder: str | None = None
    for one in simple_commands(text):
        words = [word.text for word in one.call]
        if not words:
            continue
        program = one.program
        if program in known("loops"):
            flags["looped"] |= program == "for"
        elif program == "cd":
            if len(words) > 1 and not re.search(r"[$`~*]", words[1]) and all(step.reads for step in steps):
                folder = posixpath.join(folder or "", words[1])
            steps.append(Step("cd", tuple(words), one.then))
        elif program == "set":
            options = " ".join(words[1:])
            flags["strict"] |= bool(re.search(r"-[a-z]*e", options))
            flags["pipefail"] |= "pipefail" in options
        elif program in known("shells") and depth < MAX_DEPTH and (inner := _inner(words)) is not None:
            count = len(steps)
            folder = _read(inner, steps, flags, depth + 1) or folder
            if len(steps) > count:
                steps[-1] = Step(steps[-1].program, steps[-1].words, one.then)
        else:
            program, words = _module(program, words)
            steps.append(Step(program, tuple(words), one.then))
    return folder


def _inner(words: Sequence[str]) -> str | None:
    """The command of `bash -c command`."""
    return next((following for word, following in pairwise(words) if re.fullmatch(r"-[a-z]*c", word)), None)


def _module(program: str, words: list[str]) -> tuple[str, list[str]]:
    """`python -m pytest` is `pytest`; `coverage run -m pytest` too."""
    if program in ("python", "pypy", "py", "coverage"):
        for number, word in enumerate(words[1:-1], start=1):
            if word == "-m":
                name = words[number + 1]
                return _module(name, words[number + 1 :]) if name == "coverage" else (name, words[number + 1 :])
            if not word.startswith("-") and program != "coverage" and words[number - 1] not in ("-W", "-X"):
                break
    return ("pytest" if program == "py.test" else program), words
