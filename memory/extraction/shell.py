"""Splits shell commands into programs and words: which only show files, and whose exit status counts.

Words follow the quoting rules of POSIX shells. A word with a variable, a substitution or a pattern in it names no file
that could be known without running the shell; it is passed over.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from sluice.text.pattern_file import PatternFile

PROGRAMS = PatternFile(Path(__file__).with_name("programs.toml"))
known = PROGRAMS.words
"""The programs of a kind: a list of `programs.toml`."""

MAX_COMMAND_CHARACTERS = 100_000
"""Longest part of a command that is read; longer ones write a file by a here-document."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command. `clear`: no variable, substitution or pattern in it."""

    text: str
    clear: bool = True


@dataclass(slots=True)
class SimpleCommand:
    """One program with its arguments, and the files that its output is redirected to: (operator, file)."""

    words: list[Word] = field(default_factory=list)
    writes: list[tuple[str, Word]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    """Here-documents that the program reads."""
    then: str = ""
    """Separator before the next command: `&&`, `|`, `;`, a line feed …"""

    @property
    def program(self) -> str:
        """The program's name without folder and version, past assignments and wrappers such as `sudo`."""
        return program_name(self.call[0].text) if self.call else ""

    @property
    def arguments(self) -> list[Word]:
        """The words after the program."""
        return self.call[1:]

    @property
    def call(self) -> list[Word]:
        """Program and arguments."""
        words, runners = self.words, PROGRAMS.tables["runners"]
        while words:
            first, rest = program_name(words[0].text), words[1:]
            if PROGRAMS["assignment"].match(words[0].text):
                words = rest
            elif first in known("wrappers") or (first == "env" and rest):
                words = _past_options(rest)
                if (first in ("timeout", "gtimeout", "strace") and words and words[0].text[:1].isdigit()) or (
                    first == "pipx" and words and words[0].text == "run"
                ):
                    words = words[1:]
            elif rest and rest[0].text == runners.get(first):
                words = _past_options(rest[1:])[1 if first == "rustup" else 0 :]
            else:
                break
        return words

    def operands(self) -> list[Word]:
        """Return the arguments that are not options."""
        found, options = [], True
        for word in self.arguments:
            if options and word.text == "--":
                options = False
            elif not (options and word.text.startswith("-") and word.text != "-"):
                found.append(word)
        return found

    def has_option(self, *names: str) -> bool:
        """Return whether one of the options is given; a single letter also counts inside a cluster (`-rf`)."""
        for word in self.arguments:
            if word.text == "--":
                return False
            for name in names:
                cluster = len(name) == 2 and re.match(r"-[A-Za-z]+", word.text)
                if word.text == name or word.text.startswith(f"{name}=") or (cluster and name[1] in cluster[0]):
                    return True
        return False


def program_name(word: str) -> str:
    """Return a program's name without folder, version and Windows suffix: `/usr/bin/python3.11` is `python`."""
    name = word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe").removesuffix(".cmd")
    versioned = PROGRAMS["versioned"].fullmatch(name)
    return versioned[1] if versioned else name


def simple_commands(command: str) -> list[SimpleCommand]:
    """Return the programs that a command runs, in the order of its text."""
    found: list[SimpleCommand] = []
    for one in _parse(command[:MAX_COMMAND_CHARACTERS]):
        if one.words or one.writes:
            found.append(one)
        elif found and found[-1].then in (")", "\n") and one.then not in ("\n", "(", ")", ""):
            found[-1].then = one.then  # `(a; b) | c`
    return found


def _parse(command: str) -> Iterator[SimpleCommand]:
    current = SimpleCommand()
    pending: list[tuple[SimpleCommand, str]] = []
    redirect: str | None = None
    position = 0
    while position < len(command):
        token = PROGRAMS["token"].match(command, position)
        if token is None:
            position += 1
            continue
        position = token.end()
        kind, text = token.lastgroup, token[0]
        if kind == "word":
            if text.startswith("#") and not current.words and redirect is None:
                position = _end_of_line(command, position)
            elif redirect == "<<":
                pending.append((current, _word(text).text))
            elif redirect is not None:
                _redirect(current, redirect, _word(text))
            elif text.startswith("#"):
                position = _end_of_line(command, position)
            else:
                current.words.append(_word(text))
            redirect = None
        elif kind == "heredoc":
            redirect = "<<"
        elif kind == "redirect":
            redirect = text
        elif kind in ("end", "background"):
            redirect = None
            if text == "\n":
                for owner, delimiter in pending:
                    body, position = _here_document(command, position, delimiter)
                    owner.text.append(body)
                pending = []
            current.then = text
            yield current
            current = SimpleCommand()
    yield current


def _redirect(command: SimpleCommand, operator: str, word: Word) -> None:
    plain = operator.lstrip("0123456789")
    if plain in (">", ">>", ">|", "&>", "&>>") or (plain == ">&" and not re.fullmatch(r"\d+|-", word.text)):
        command.writes.append((">>" if ">>" in plain else ">", word))


def _here_document(command: str, position: int, delimiter: str) -> tuple[str, int]:
    end = re.compile(rf"^[ \t]*{re.escape(delimiter)}[ \t]*\r?$", re.MULTILINE).search(command, position)
    if end is None:
        return command[position:], len(command)
    return command[position : end.start()], end.end()


def _end_of_line(command: str, position: int) -> int:
    end = command.find("\n", position)
    return len(command) if end < 0 else end


def _word(raw: str) -> Word:
    text, clear = [], True
    for piece in PROGRAMS["piece"].finditer(raw):
        single, double, substitution, escaped, plain = piece.groups()
        if single is not None:
            text.append(single)
        elif double is not None:
            text.append(re.sub(r'\\([$`"\\\n])', r"\1", double))
            clear = clear and not re.search(r"(?<!\\)[$`]", double)
        elif substitution is not None:
            text.append(substitution)
            clear = False
        elif escaped is not None:
            text.append(escaped)
        else:
            text.append(plain)
            clear = clear and not re.search(r"[$*?\[{`'\"]", plain)
    return Word("".join(text), clear)


def _past_options(words: list[Word]) -> list[Word]:
    while words and words[0].text.startswith("-"):
        words = words[2:] if words[0].text in known("valued") else words[1:]
    return words


def found_nothing(command: str, exit_code: int | None) -> bool:
    """Return whether exit code 1 says only that the last program found nothing (`grep`), or a difference (`diff`)."""
    commands = simple_commands(command) if exit_code == 1 else []
    if not commands:
        return False
    last = commands[-1]
    if last.program == "git":
        operands = last.operands()
        return bool(operands) and operands[0].text in ("diff", "grep")
    return last.program in known("ends_with_one")


MAX_READ_CHARACTERS = 20_000
"""Most characters read of a command that is split into steps."""
MAX_SHELL_DEPTH = 4
"""Deepest nesting of shells (`bash -c`) that is read."""
_LENIENT = frozenset(
    ("--exit-zero", "--exit-zero-even-if-changed", "-k", "--keep-going", "--no-error-on-unmatched-pattern")
)


@dataclass(frozen=True, slots=True)
class Step:
    """One simple command: its program (`python -m pytest` is `pytest`), its words, and the separator behind it."""

    program: str
    words: tuple[str, ...]
    then: str

    @property
    def reads(self) -> bool:
        """Whether it only shows the content of files, logs or the history of git."""
        program, words = self.program, self.words[1:]
        if program == "sed":
            return not any(re.match(r"-[a-zA-Z]*i|--in-place", word) for word in words)
        if program == "find":
            return not {"-exec", "-execdir"} & set(words)
        if program in known("readers") or {"--help", "--version"} & set(words):
            return True
        subcommands = PROGRAMS.tables["subcommand_readers"].get(program, "").split()
        operands = (one for before, one in pairwise(["", *words]) if one[:1] != "-" and before not in ("-C", "-c"))
        return next(operands, "") in subcommands or "--explain" in words[:1]


@dataclass(slots=True)
class Commands:
    """The steps of a command; `folder` is the target of a leading `cd`.

    `strict` and `pipefail` are those of `set -e` and `set -o pipefail`; `looped`: a loop's status is its last round's.
    """

    steps: list[Step] = field(default_factory=list)
    folder: str | None = None
    strict: bool = False
    pipefail: bool = False
    looped: bool = False

    def doubtful(self) -> list[Step]:
        """Return steps that may have failed although the whole exited with 0: before a pipe, a `;` or an `||`."""
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
        return found


def read_command(command: str) -> Commands:
    """Return the steps of a POSIX shell command, with those of `bash -c` in it, without here-documents."""
    commands = Commands()
    commands.folder = _read(command[:MAX_READ_CHARACTERS], commands, 0)
    return commands


def _read(text: str, commands: Commands, depth: int) -> str | None:
    """Add the steps of a text to `commands`; return the folder that it leaves its shell in, None where it began."""
    folder, steps = None, commands.steps
    for one in simple_commands(text):
        words = [word.text for word in one.call]
        if not words:
            continue
        program = one.program
        if program in known("loops"):
            commands.looped |= program == "for"
        elif program == "cd":
            if len(words) > 1 and not re.search(r"[$`~*]", words[1]) and all(step.reads for step in steps):
                folder = posixpath.join(folder or "", words[1])
            steps.append(Step("cd", tuple(words), one.then))
        elif program == "set":
            options = " ".join(words[1:])
            commands.strict |= bool(re.search(r"-[a-z]*e", options))
            commands.pipefail |= "pipefail" in options
        elif program in known("shells") and depth < MAX_SHELL_DEPTH and (inner := _inner(words)) is not None:
            count = len(steps)
            folder = _read(inner, commands, depth + 1) or folder
            if len(steps) > count:
                steps[-1] = Step(steps[-1].program, steps[-1].words, one.then)
        else:
            program, words = _module(program, words)
            steps.append(Step(program, tuple(words), one.then))
    return folder


def _inner(words: Sequence[str]) -> str | None:
    """Return the command of `bash -c command`."""
    return next((following for word, following in pairwise(words) if re.fullmatch(r"-[a-z]*c", word)), None)


def _module(program: str, words: list[str]) -> tuple[str, list[str]]:
    """Return the program behind `-m`: `python -m pytest` is `pytest`; `coverage run -m pytest` too."""
    if program in ("python", "pypy", "py", "coverage"):
        for number, word in enumerate(words[1:-1], start=1):
            if word == "-m":
                name = words[number + 1]
                return _module(name, words[number + 1 :]) if name == "coverage" else (name, words[number + 1 :])
            if not word.startswith("-") and program != "coverage" and words[number - 1] not in ("-W", "-X"):
                break
    return ("pytest" if program == "py.test" else program), words
