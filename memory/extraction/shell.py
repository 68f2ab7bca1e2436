"""Shell commands, cut into programs and words.

A command is cut into words by the quoting rules of POSIX shells. A word with a variable, a substitution or a pattern in
it names no file that could be known without running the shell; it is passed over.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

MAX_COMMAND_CHARACTERS = 100_000
"""A longer command (a file written by a here-document) is read up to here."""

_TOKEN = re.compile(
    r"""
    (?P<space>(?:[ \t\r]|\\\r?\n)+)
  | (?P<end>\n|&&|\|\||;;|;|\|&|\||[()])
  | (?P<heredoc>\d*<<-?(?!<)[ \t]*)
  | (?P<redirect>(?:\d*|&)(?:<<<|>>|>\||>&|<&|<>|>|<))
  | (?P<background>&)
  | (?P<word>(?:'[^']*'|"(?:[^"\\]|\\.)*"|\$\([^()\n]*\)|`[^`\n]*`|\\.|[^\s;&|()<>'"\\`]|['"`\\])+)
    """,
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(
    r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|(\$\([^()\n]*\)|`[^`\n]*`)|\\(.)|([^'"\\`]+|['"\\`])""", re.DOTALL
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_VERSIONED = re.compile(
    r"(?:[a-z0-9_]{2,12}-[a-z0-9_]{2,12}-(?:[a-z0-9]{2,12}-)?)?"
    r"(python|pypy|pip|gcc|g\+\+|clang|clang\+\+|cc|c\+\+|node|go|clang-tidy)-?\d*(?:\.\d+)*"
)


@cache
def known(kind: str) -> frozenset[str]:
    """The programs of a kind: a list of `programs.toml`."""
    return frozenset(programs()[kind].split())


@cache
def programs() -> Mapping[str, Any]:
    """All that `programs.toml` says."""
    with Path(__file__).with_name("programs.toml").open("rb") as file:
        return tomllib.load(file)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command. `clear`: no variable, substitution or pattern in it."""

    text: str
    clear: bool = True


@dataclass(slots=True)
class SimpleCommand:
    """One program with its arguments, and files that its output is redirected to: (operator, file)."""

    words: list[Word] = field(default_factory=list)
    writes: list[tuple[str, Word]] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    """Here-documents that it reads."""
    then: str = ""
    """What joins it to the next: `&&`, `|`, `;`, a line feed …"""

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
        words, runners = self.words, programs()["runners"]
        while words:
            first, rest = program_name(words[0].text), words[1:]
            if _ASSIGNMENT.match(words[0].text):
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
        """The arguments that are no options."""
        found, options = [], True
        for word in self.arguments:
            if options and word.text == "--":
                options = False
            elif not (options and word.text.startswith("-") and word.text != "-"):
                found.append(word)
        return found

    def has_option(self, *names: str) -> bool:
        """Whether one of the options stands there; a single letter counts inside a cluster too (`-rf`)."""
        for word in self.arguments:
            if word.text == "--":
                return False
            for name in names:
                cluster = len(name) == 2 and re.match(r"-[A-Za-z]+", word.text)
                if word.text == name or word.text.startswith(f"{name}=") or (cluster and name[1] in cluster[0]):
                    return True
        return False


def program_name(word: str) -> str:
    """A program without its folder, its version and the suffix of Windows: `/usr/bin/python3.11` is `python`."""
    name = word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe").removesuffix(".cmd")
    versioned = _VERSIONED.fullmatch(name)
    return versioned[1] if versioned else name


def simple_commands(command: str) -> list[SimpleCommand]:
    """The programs that a command runs, in the order of its text."""
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
        token = _TOKEN.match(command, position)
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
    for piece in _PIECE.finditer(raw):
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
    """Whether an exit code of 1 says only that the last program found nothing (`grep`), or a difference (`diff`)."""
    commands = simple_commands(command) if exit_code == 1 else []
    if not commands:
        return False
    last = commands[-1]
    if last.program == "git":
        operands = last.operands()
        return bool(operands) and operands[0].text in ("diff", "grep")
    return last.program in known("ends_with_one")
