"""What the shell, make, npm, git, pip and the small commands say when they fail."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.contracts.memory.model import ErrorType
from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.output import Output

_SHELL = r"(?:/(?:usr/)?bin/)?(?:bash|sh|zsh|dash|ksh)"
_FROM_SHELL = re.compile(rf"{_SHELL}: (?:line )?\d+: ")
_NOT_FOUND = re.compile(
    rf"(?:{_SHELL}: (?:line \d+: |-c: line \d+: |\d+: )?)?(?P<name>[^\s:][^:]{{0,200}}): (?:command )?not found$"
    rf"|zsh:(?:\d+:)? command not found: (?P<zsh>.{{1,200}})$"
)
_SCRIPT = re.compile(
    r"(?P<path>[^\s:][^:]{0,300}): (?:line )?(?P<line>\d{1,7}): (?P<message>(?P<name>[^:]{1,200}): (?:command )?not found|.{0,100}(?:[Ss]yntax error|unexpected|unbound variable|Permission denied|No such file|parameter not set|Is a directory|bad substitution|cannot open|cannot create|not a valid identifier|Exec format error|ambiguous redirect|[Nn]ot found|can't cd|[Ii]llegal (?:option|number)|expecting).*)$"
)
_SYSTEM = re.compile(
    rf"(?:{_SHELL}: (?:line \d+: |\d+: )?)?(?:(?P<program>[\w.+/-]{{1,100}}): )?"
    r"(?P<rest>.{0,400}?): (?P<reason>No such file or directory|Permission denied|Is a directory|Not a directory|File exists|"
    r"Operation not permitted|No space left on device|Read-only file system|Exec format error|Directory not empty)$"
)
_QUOTED = re.compile(r"['‘`\"]([^'’`\"]{1,300})['’`\"]")
_PYTHON = re.compile(
    r"(?:\S{0,200}python[\d.]*): (?P<message>can't open file '(?P<path>[^']{1,300})'.*|No module named .*|Error while finding module .*)$"
)
_CRASH = re.compile(
    r"(?:.{1,300}: line (?P<line>\d+): +\d+ |.{0,200})(?P<message>(?:Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception|Killed)(?: +\(core dumped\))?)(?: .{0,300})?$"
)
_C_ASSERT = re.compile(
    r"\S{1,300}: (?P<path>[^\s:]{1,300}):(?P<line>\d{1,7}): (?P<message>.{0,300}Assertion [`'].{1,500}' failed\.)$"
)

_MAKE_AT = re.compile(r"(?P<path>[^\s:]{1,300}):(?P<line>\d{1,7}): \*\*\* (?P<message>.*?)(?:\.  Stop\.)?$")
_MAKE = re.compile(r"g?make(?:\[\d+\])?: \*\*\* (?P<message>.*?)(?:\.  Stop\.)?$")
_MAKE_RECIPE = re.compile(r"\[(?P<path>[^\s:\]]{1,300}):(?P<line>\d{1,7}): [^\]]{1,300}\] (?:Error \d+|[A-Z].*)")

_NPM = re.compile(r"npm (?:error|ERR!)(?: (?P<text>.*))?$")
_NPM_SKIP = re.compile(
    r"(?:code|errno|syscall|path|dest|cwd|signal|command|workspace|location|lifecycle|stack|A complete log|Lifecycle script|    |To see a list|  npm run|This is related|enoent $|Did you mean|For a full|in workspace)"
)
_NPM_FOLLOWS = re.compile(r"code ELIFECYCLE|Lifecycle script|command failed")
_YARN = re.compile(
    r"(?:error |\s?ERR_PNPM_\w+\s+|\s?ELIFECYCLE\s+)(?P<message>(?:Command \S+ not found|Missing script|Couldn't find a package|Command failed with exit code|No package\.json|An unexpected error occurred|Missing script:).*)$"
)
_PIP = re.compile(
    r"ERROR: (?P<message>(?:Could not find a version|No matching distribution|Could not open requirements file|Invalid requirement|Cannot install|ResolutionImpossible|Failed building wheel|Package '|Directory '|Could not install packages|Failed to build|Exception:|Could not build wheels|Cannot uninstall).*)$"
)
_GIT = re.compile(r"(?P<message>(?:fatal|error): .*|CONFLICT \([\w/ ]{1,40}\): .*)$")
_CONFLICT = re.compile(r"CONFLICT \([\w/ ]{1,40}\): (?:Merge conflict in (?P<path>.{1,300})|.*)$")


def read_shell(output: Output, own: frozenset[str] | None = None) -> Iterator[Mention]:
    """`x: command not found`, `cat: x: No such file or directory`; `own`: only what these programs say."""
    for number, line in output.having(": "):
        if line[0] in " \t" or len(line) > 600:
            continue
        if own is not None:
            missing = _NOT_FOUND.match(line)
            if missing and (missing["name"] or missing["zsh"]) in own:
                yield Mention(line, "shell", number, number)
            elif (found := _SYSTEM.match(line)) and (
                (found["program"] or "").rpartition("/")[2] in own or _FROM_SHELL.match(line)
            ):
                yield _system(found, line, number)
            continue
        if found := _SCRIPT.match(line):
            if re.fullmatch(_SHELL, found["path"]) or found["path"].endswith("-c") or found["path"] in ("-bash", "-sh"):
                system = _SYSTEM.match(line)
                yield (
                    _system(system, line, number)
                    if system
                    else Mention(_told(found["message"], line), "shell", number, number)
                )
            else:
                yield Mention(
                    _told(found["message"], found["message"]),
                    "shell",
                    number,
                    number,
                    found["path"],
                    int(found["line"]),
                )
        elif found := _PYTHON.match(line):
            yield Mention(found["message"], "python", number, number, found["path"])
        elif found := _C_ASSERT.match(line):
            yield Mention(
                found["message"],
                "assert",
                number,
                number,
                found["path"],
                int(found["line"]),
                error_type=ErrorType.LOGIC,
            )
        elif _NOT_FOUND.match(line):
            yield Mention(line, "shell", number, number)
        elif (found := _SYSTEM.match(line)) and " " not in (found["program"] or ""):
            yield _system(found, line, number)
    for word in ("Segmentation fault", "core dumped", "Killed", "Aborted"):
        for number, line in output.having(word):
            if (
                (found := _CRASH.match(line))
                and len(line) < 400
                and (line.startswith(found["message"]) or "core dumped" in line or "line " in line)
            ):
                yield Mention(found["message"], "shell", number, number, follows=word == "Aborted" or "Aborted" in line)


def _told(message: str, line: str) -> str:
    return (
        "syntax error: " + message
        if re.search(r"[Ss]yntax error|unexpected", message) and not message.startswith("syntax error")
        else (message or line)
    )


def _system(found: re.Match[str], line: str, number: int) -> Mention:
    rest = found["rest"] if found["program"] not in ("make", "gmake") else ""
    quoted = _QUOTED.search(rest)
    path = quoted[1] if quoted else rest.rpartition(": ")[2]
    if " " in path and not quoted:
        path = path.rpartition(" ")[2]
    return Mention(line, "shell", number, number, path or None)


def read_make(output: Output) -> Iterator[Mention]:
    """`Makefile:3: *** missing separator`, `No rule to make target`; `Error 1` of a recipe says only that it failed."""
    for number, line in output.having("*** "):
        if found := _MAKE.match(line):
            recipe = _MAKE_RECIPE.match(found["message"])
            if recipe:
                yield Mention(
                    found["message"], "make", number, number, recipe["path"], int(recipe["line"]), follows=True
                )
            else:
                yield Mention(found["message"], "make", number, number, follows="Error " in found["message"])
        elif found := _MAKE_AT.match(line):
            yield Mention(
                found["message"],
                "make",
                number,
                number,
                found["path"],
                int(found["line"]),
                error_type=ErrorType.COMPILE,
            )


def read_npm(output: Output) -> Iterator[Mention]:
    """One error a run of npm, by its first line that says something; also of yarn and pnpm."""
    told: list[tuple[int, str]] = []
    path = None
    for mark in ("npm error", "npm ERR!"):
        for number, line in output.having(mark):
            if found := _NPM.match(line):
                text = (found["text"] or "").strip()
                told.append((number, text))
                if text.startswith("path ") and path is None:
                    path = text[5:].strip()
    if told:
        spoken = [(number, text) for number, text in told if text and not _NPM_SKIP.match(text)]
        follows = any(_NPM_FOLLOWS.match(text) for _, text in told)
        message = spoken[0][1] if spoken else told[0][1] or "npm failed"
        if path is None and "package.json" in message:
            path = "package.json"
        yield Mention(
            message,
            "npm",
            told[0][0],
            told[-1][0],
            path if path and path.endswith("package.json") else None,
            follows=follows,
            error_type=ErrorType.PERMISSION if any(text in ("code EACCES", "code EPERM") for _, text in told) else None,
        )
    for number, line in [*output.having("error "), *output.having("ERR_PNPM"), *output.having("ELIFECYCLE")]:
        if found := _YARN.match(line):
            yield Mention(found["message"], "npm", number, number, follows="exit code" in line)


def read_pip(output: Output) -> Iterator[Mention]:
    """pip's last word on what it could not install."""
    for number, line in output.having("ERROR: "):
        if found := _PIP.match(line):
            yield Mention(found["message"], "pip", number, number)
            return


def read_git(output: Output) -> Iterator[Mention]:
    """`fatal: …`, `error: …` and conflicts of a merge."""
    for number, line in enumerate(output.lines):
        if line[:1] in ("f", "e", "C") and not output.taken[number] and (found := _GIT.match(line)):
            conflict = _CONFLICT.match(line)
            yield Mention(found["message"], "git", number, number, conflict["path"] if conflict else None)
