"""Finds the files that a shell command writes, moves, removes and shows, as far as its text is clear."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from sluice.memory.extraction.shell import SimpleCommand, Word, simple_commands

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
