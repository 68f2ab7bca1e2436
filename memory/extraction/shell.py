"""What a shell command does to files, as far as its text is clear: which it writes, moves, removes and shows.

A command is cut into words by the quoting rules of POSIX shells. A word with a variable, a substitution or a pattern in
it names no file that could be known without running the shell; it is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

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

    @property
    def program(self) -> str:
        """The program's name without its folder, past assignments and wrappers such as `sudo`."""
        return self.call[0].text.rpartition("/")[2] if self.call else ""

    @property
    def arguments(self) -> list[Word]:
        """The words after the program."""
        return self.call[1:]

    @property
    def call(self) -> list[Word]:
        """Program and arguments."""
        words = self.words
        while words:
            first = words[0].text
            if (
                _ASSIGNMENT.match(first)
                or first in ("sudo", "time", "command", "nohup", "exec", "builtin", "env", "{", "!")
                or first in ("then", "do", "else", "if", "while", "until")
            ):
                words = words[1:]
            elif first in ("timeout", "nice") and len(words) > 2:
                words = _past_options(words[1:], values=("-k", "-s", "-n"))
                words = words[1:] if first == "timeout" else words
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


def simple_commands(command: str) -> list[SimpleCommand]:
    """The programs that a command runs, in the order of its text."""
    return [one for one in _parse(command[:MAX_COMMAND_CHARACTERS]) if one.words or one.writes]


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


def _past_options(words: list[Word], values: tuple[str, ...]) -> list[Word]:
    while words and words[0].text.startswith("-"):
        words = words[2:] if words[0].text in values else words[1:]
    return words


_ENDS_WITH_ONE = frozenset(
    ("grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "diff", "cmp", "test", "[", "[[", "which", "pgrep")
)
"""Programs that end with exit code 1 where they found nothing, or a difference."""


def found_nothing(command: str, exit_code: int | None) -> bool:
    """Whether an exit code of 1 says only that the last program found nothing (`grep`), or a difference (`diff`)."""
    commands = simple_commands(command) if exit_code == 1 else []
    if not commands:
        return False
    last = commands[-1]
    if last.program == "git":
        operands = last.operands()
        return bool(operands) and operands[0].text in ("diff", "grep")
    return last.program in _ENDS_WITH_ONE


ShellEffectKind = Literal["write", "append", "change", "read", "delete"]


@dataclass(frozen=True, slots=True)
class ShellEffect:
    """A file that a command names. `directory`: where the command had gone by `cd` before, None where it began."""

    path: str
    kind: ShellEffectKind
    written: str = ""
    directory: str | None = None
    by_last: bool = False
    """Whether the last program of the command did it, which is the one that failed where the command did."""


@dataclass(frozen=True, slots=True)
class ShellReading:
    """What a command does, as far as it is clear, and the folder that it leaves its shell in (None: where it began).

    `unclear` counts words that name files which only the shell knows.
    """

    effects: tuple[ShellEffect, ...]
    directory: str | None
    unclear: int


def read_shell(command: str) -> ShellReading:
    """The files that a command clearly touches, in order, and where it goes by `cd`."""
    effects: list[ShellEffect] = []
    unclear = 0
    directory: str | None = None
    commands = simple_commands(command)
    for one in commands:
        directory = _after(one, directory)
        for kind, word, written in _touched(one):
            if not word.clear:
                unclear += 1
            elif word.text and word.text != "-" and not word.text.startswith(("/dev/", "&")):
                effects.append(ShellEffect(word.text, kind, written, directory, one is commands[-1]))
    return ShellReading(tuple(effects), directory, unclear)


def join_directories(current: str | None, change: str | None) -> str | None:
    """Where `cd change` leads from `current`. A home folder is not known: the shell is taken to have stayed."""
    if change is None or change.startswith("~"):
        return current
    return change if current is None or re.match(r"[/\\]|[A-Za-z]:", change) else f"{current}/{change}"


def directory_before(command: str, after: str) -> str:
    """The folder that a command began in, by the one that it left its shell in."""
    change = read_shell(command).directory
    if change and after.endswith(f"/{change}") and ".." not in change:
        return after[: -len(change) - 1] or "/"
    return after


def _after(command: SimpleCommand, directory: str | None) -> str | None:
    operands = command.operands()
    if command.program != "cd" or len(operands) != 1 or not operands[0].clear or operands[0].text == "-":
        return directory
    return join_directories(directory, operands[0].text)


def _touched(command: SimpleCommand) -> Iterator[tuple[ShellEffectKind, Word, str]]:
    program, operands = command.program, command.operands()
    if program == "git" and operands:
        program, operands = f"git {operands[0].text}", operands[1:]
        if program == "git rm" and command.has_option("--cached"):
            return
    spoken = " ".join(word.text for word in command.call)
    if program in ("rm", "git rm", "unlink", "rmdir"):
        yield from (("delete", word, "") for word in operands)
    elif program in ("mv", "git mv") and len(operands) >= 2:
        for source in operands[:-1]:
            yield "delete", source, ""
            yield "write", _into(operands[-1], source, many=len(operands) > 2), spoken
    elif program == "cp" and len(operands) >= 2:
        for source in operands[:-1]:
            yield "read", source, ""
            yield "write", _into(operands[-1], source, many=len(operands) > 2), spoken
    elif program == "touch":
        yield from (("append", word, "") for word in operands)
    elif program == "tee":
        kind: ShellEffectKind = "append" if command.has_option("-a", "--append") else "write"
        yield from ((kind, word, "\n".join(command.text)) for word in operands)
    elif program == "sed" and command.has_option("-i", "--in-place"):
        scripts = any(word.text in ("-e", "-f") for word in command.arguments)
        yield from (("change", word, spoken) for word in _files_of_sed(command, operands, scripts))
    elif program in ("cat", "head", "tail", "less", "more", "nl", "bat", "tac", "wc"):
        yield from (("read", word, "") for word in _files_of_viewer(command, operands))
    elif program == "sed" and operands[1:] and not command.has_option("-e", "-f"):
        yield from (("read", word, "") for word in operands[1:])
    elif program in ("git checkout", "git restore") and (program == "git restore" or _after_dashes(command)):
        yield from (("change", word, spoken) for word in (_after_dashes(command) or operands))
    for operator, word in command.writes:
        told = "\n".join(command.text) if command.text else spoken
        yield "append" if operator == ">>" else "write", word, told


def _into(target: Word, source: Word, many: bool) -> Word:
    if many or target.text.endswith("/") or target.text in (".", ".."):
        return Word(
            f"{target.text.rstrip('/')}/{source.text.rstrip('/').rpartition('/')[2]}", target.clear and source.clear
        )
    return target


def _files_of_viewer(command: SimpleCommand, operands: list[Word]) -> list[Word]:
    """The operands without values of options that stand apart (`head -n 5 f`)."""
    values = {id(value) for option, value in pairwise(command.arguments) if option.text in ("-n", "-c")}
    return [word for word in operands if id(word) not in values]


def _files_of_sed(command: SimpleCommand, operands: list[Word], scripts: bool) -> list[Word]:
    if scripts:
        values = {id(value) for option, value in pairwise(command.arguments) if option.text in ("-e", "-f")}
        return [word for word in operands if id(word) not in values]
    first = command.arguments[0].text if command.arguments else ""
    after_empty_suffix = first == "-i" and len(operands) > 2 and operands[0].text == ""
    return operands[2:] if after_empty_suffix else operands[1:]


def _after_dashes(command: SimpleCommand) -> list[Word]:
    texts = [word.text for word in command.arguments]
    return command.arguments[texts.index("--") + 1 :] if "--" in texts else []
