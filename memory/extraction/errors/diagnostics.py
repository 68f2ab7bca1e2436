"""Tools that tell an error in one line with its place: compilers, type checkers, linters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.output import Output

_PATH = r"(?P<path>(?:[A-Za-z]:(?=[\\/]))?[^\s:()\[\]'\"|][^:()'\"|]{0,300}?)"
_AT = _PATH + r":(?P<line>\d{1,7})"

_PYTHON_FILE = r"(?P<path>(?:[A-Za-z]:(?=[\\/]))?[^\s:()'\"|][^:()'\"|]{0,300}?\.(?:pyi?|ipynb)):(?P<line>\d{1,7})"
_MYPY = re.compile(_PYTHON_FILE + r"(?::\d{1,5})?(?::\d{1,7}:\d{1,5})?: error: (?P<message>.*)$")
_MYPY_FILE = re.compile(r"(?P<path>[^\s:'\"]{1,300}\.pyi?): error: (?P<message>.*)$")
_MYPY_USAGE = re.compile(r"mypy: (?:error: )?(?P<message>can't read file '(?P<path>[^']{1,300})'.*|error: .*)$")
_PYRIGHT = re.compile(r" +" + _PYTHON_FILE + r":\d{1,5} - error: (?P<message>.*)$")

_CODED = re.compile(r" +\[[a-z-]{2,40}\]$")
_AT_ANY = re.compile(r"[^:]{1,300}:\d{1,7}:")

_GCC = re.compile(_AT + r"(?::\d{1,5})?: (?:fatal |internal compiler |internal )?error: (?P<message>.*)$")
_GCC_DRIVER = re.compile(
    r"(?:[\w.+-]{0,40}-)?(?:gcc|g\+\+|cc1|cc1plus|clang|clang\+\+|cc|c\+\+)(?:-\d+)?: (?:fatal )?error: (?P<message>.*)$"
)
_UNDEFINED = re.compile(
    r"(?:\S{0,300}ld(?:\.\w+)?: )?(?P<path>[^\s:()][^:()]{0,300}):(?:(?P<line>\d{1,7})|\([^)]{1,100}\)): (?P<message>(?:undefined reference to|multiple definition of) .*)$"
)
_LD = re.compile(
    r"\S{0,300}?(?:ld|ld\.\w+|lld|gold): (?P<message>(?:cannot find|error: |unrecognized option|cannot open|skipping incompatible).*)$"
)

_TSC = re.compile(
    r"(?P<path>(?:[A-Za-z]:(?=[\\/]))?[^\s(:][^(:]{0,300})\((?P<line>\d{1,7}),\d{1,5}\): error (?P<message>TS\d{1,6}: .*)$"
)
_TSC_PRETTY = re.compile(r"(?P<path>[^\s:][^:]{0,300}):(?P<line>\d{1,7}):\d{1,5} - error (?P<message>TS\d{1,6}: .*)$")
_TSC_GLOBAL = re.compile(r"error (?P<message>TS\d{1,6}: .*)$")

_RULE = re.compile(
    _AT
    + r":\d{1,5}: (?P<message>(?P<code>[A-Z]{1,8}\d{1,6}|SyntaxError|invalid-syntax)(?P<colon>:?) (?P<fix>\[\*\] )?.*)$"
)
_RULE_NO_COLUMN = re.compile(_AT + r": (?P<message>[A-Z]{1,3}\d{3,4} \S.*)$")
_RULE_FILE = re.compile(r"(?P<path>\S[^:]{0,300}\.(?:pyi?|ipynb)):$")
_RULE_BELOW = re.compile(
    r" +(?P<line>\d{1,7}):(?P<column>\d{1,5}) +(?P<message>(?:[A-Z]{1,8}\d{1,6}|invalid-syntax:|SyntaxError:) .*)$"
)
_ANNOTATION = re.compile(r"::error (?P<fields>[^:]{0,300}(?::(?!:)[^:]{0,300}){0,4})::(?P<message>.*)$")
_AZURE = re.compile(r"##vso\[task\.logissue (?P<fields>[^\]]{1,600})\](?P<message>.*)$")
_RULE_NAME = re.compile(
    r"(?P<message>(?:[A-Z]{1,8}\d{1,6} |invalid-syntax: |SyntaxError: |unformatted: )(?:\[\*\] )?\S.*)$"
)
_ARROW = re.compile(r" *--> (?P<path>.{1,300}?):(?P<line>\d{1,7}):(?P<column>\d{1,5})$")
_RUFF_PARSE = re.compile(r"error: Failed to parse (?P<path>.{1,300}?):(?P<line>\d{1,7}):\d{1,5}: (?P<message>.*)$")
_REFORMAT = re.compile(r"(?:Would reformat: |would reformat )(?P<path>\S.{0,300})$")
_BLACK_PARSE = re.compile(
    r"error: cannot format (?P<path>.{1,300}?): (?P<message>Cannot parse.*?: (?P<line>\d{1,7}):\d.*)$"
)

_GO = re.compile(
    r"(?P<vet>vet: )?(?P<path>(?:\./)?[^\s:][^:]{0,300}\.go):(?P<line>\d{1,7})(?::\d{1,5})?: (?P<message>\S.*)$"
)
_GO_COMPILER = re.compile(
    r"undefined: |cannot use |cannot assign |cannot convert |invalid |missing return$|missing ',' |expected |syntax error|assignment mismatch"
    r"|not enough |too many |unknown field|undeclared|no new variables|\S+ (?:undefined|redeclared|declared (?:and|but) not used|is not a type)"
    r"|\"\S+\" imported (?:and|but) not used|impossible type|non-boolean|could not import"
)
_GO_LIST = re.compile(r"(?P<path>[^\s:][^:]{0,300}\.go|go\.mod):(?P<line>\d{1,7})(?::\d{1,5})?: (?P<message>.*)$")
_GO_PACKAGE = re.compile(r"# \[?\S{1,300}(?: \[\S{1,300}\])?\]?$")
_GO_TOOL = re.compile(
    r"go: (?P<message>(?:go\.mod file not found|cannot find|no such|errors parsing|module |updates to|unknown|build |.*: (?:no required module|cannot find module)).*)$"
)
_GO_PLAIN = re.compile(
    r"(?P<message>package \S{1,200} is not in (?:GOROOT|std).*|no required module provides package .*|pattern \S{1,200}: .*|imports \S+: .*)$"
)

_MAVEN = re.compile(
    r"\[ERROR\] (?P<path>(?:[A-Za-z]:)?[^\s:\[][^:\[]{0,400}):\[(?P<line>\d{1,7})(?:,\d{1,5})?\] (?P<message>.*)$"
)

_LANGUAGES = {
    "java": "javac", "kt": "kotlinc", "kts": "kotlinc", "swift": "swiftc", "scala": "scalac", "hs": "ghc", "rs": "rustc",
    "proto": "protoc", "vala": "valac",
}  # fmt: skip
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".C", ".m", ".f90")
_RULE_BRACKETS = re.compile(
    _AT + r"(?::\d{1,5})?: (?P<message>\[(?P<code>[A-Z]{1,8}\d{1,6})(?:\([\w-]{1,80}\))?[\],].*)$"
)
_CODED_LINTERS = {"flake8", "pycodestyle", "pyflakes"}
_COLUMN = re.compile(r"\d+")
_COLLECT = ("no input files", "ld returned", "linker command failed")


def read_mypy(output: Output) -> Iterator[Mention]:
    """`m.py:3: error: … [return-value]`; notes are no errors."""
    for number, line in output.having("error:"):
        found = _MYPY.match(line) or _MYPY_FILE.match(line)
        if found:
            yield _wrapped(_mention(found, "mypy", number), output)
        elif found := _PYRIGHT.match(line):
            yield _mention(found, "pyright", number)
    for number, line in output.having("mypy: "):
        if found := _MYPY_USAGE.match(line):
            yield _mention(found, "mypy", number)


def _wrapped(mention: Mention, output: Output) -> Mention:
    """With the lines into which `--pretty` broke the message, up to its code."""
    message, last = mention.message, mention.last
    while not _CODED.search(message) and last - mention.first < 6:
        last += 1
        line = output.line(last)
        if not line or line[0] == " " or _AT_ANY.match(line):
            return mention
        message += " " + line
    return replace(mention, message=message, last=last) if _CODED.search(message) else mention


def read_gcc(output: Output) -> Iterator[Mention]:
    """`a.c:1:20: error: …` of gcc, clang and those who write like them; undefined symbols of the linker."""
    clang = "clang" in output.words or "clang++" in output.words or "clang: error" in output.text
    for number, line in output.having("error: "):
        if found := _GCC.match(line):
            path = found["path"]
            tool = _LANGUAGES.get(path.rpartition(".")[2], "clang" if clang else "gcc")
            if not path.endswith((".py", ".pyi")):
                yield _mention(found, tool, number)
        elif found := _GCC_DRIVER.match(line):
            yield _mention(found, "clang" if clang else "gcc", number, follows=any(one in line for one in _COLLECT))
        elif line.startswith("collect2: "):
            yield Mention(line.removeprefix("collect2: "), "ld", number, number, follows=True)
    if "undefined reference to" in output.text or "multiple definition of" in output.text:
        for number, line in [*output.having("undefined reference to"), *output.having("multiple definition of")]:
            if found := _UNDEFINED.match(line):
                path = found["path"]
                source = path if found["line"] or path.endswith(_SOURCES) else None
                at = int(found["line"]) if found["line"] else None
                yield Mention(found["message"], "ld", number, number, source, at)
    for number, line in output.having("ld: "):
        if (found := _LD.match(line)) and not any(one in line for one in _COLLECT):
            yield _mention(found, "ld", number)


def read_tsc(output: Output) -> Iterator[Mention]:
    """`a.ts(1,7): error TS2322: …` in a pipe, `a.ts:1:7 - error TS2322: …` on a terminal."""
    for number, line in output.having("error TS"):
        found = _TSC.match(line) or _TSC_PRETTY.match(line) or _TSC_GLOBAL.match(line)
        if found:
            yield _mention(found, "tsc", number)


def read_rules(output: Output) -> Iterator[Mention]:
    """Findings by code: ruff (short, and in several lines), flake8, pylint; ruff's and black's formatting."""
    text = output.text
    heading: str | None = None
    for number, line in enumerate(output.lines):
        if output.taken[number] or ":" not in line:
            continue
        if line[-1] == ":":
            heading = found["path"] if (found := _RULE_FILE.match(line)) else heading
            continue
        if line[0] == " " and heading and (found := _RULE_BELOW.match(line)):
            yield Mention(found["message"], "ruff", number, number, heading, int(found["line"]), column=found["column"])
            continue
        if found := _RULE.match(line):
            yield _mention(found, _linter(output, found), number)
        elif ": [" in line and (found := _RULE_BRACKETS.match(line)):
            yield _mention(found, "flake8" if "flake8" in output.words else "pylint", number)
        elif output.words & _CODED_LINTERS and (found := _RULE_NO_COLUMN.match(line)):
            yield _mention(found, "flake8", number)
        elif line[0] != " " and (found := _RULE_NAME.match(line)) is not None:
            for ahead in range(number + 1, min(number + 4, len(output.lines))):
                if place := _ARROW.match(output.lines[ahead]):
                    yield Mention(
                        found["message"],
                        "ruff",
                        number,
                        ahead,
                        place["path"],
                        int(place["line"]),
                        column=place["column"],
                    )
                    break
    if " --> " in text:
        yield from _arrows(output)
    for number, line in output.having("error: "):
        if found := _RUFF_PARSE.match(line):
            yield Mention(f"SyntaxError: {found['message']}", "ruff", number, number, found["path"], int(found["line"]))
        elif found := _BLACK_PARSE.match(line):
            yield Mention(
                f"SyntaxError: {found['message']}", "black", number, number, found["path"], int(found["line"])
            )
    for number, line in output.having("ould reformat"):
        if found := _REFORMAT.match(line):
            yield Mention(line, "ruff" if line[0] == "W" else "black", number, number, found["path"])


def _arrows(output: Output) -> Iterator[Mention]:
    """Ruff's shape in several lines, for codes whose line has no colon (`F401 [*] `os` imported but unused`)."""
    for number, line in output.having("--> "):
        place = _ARROW.match(line)
        above = output.line(number - 1)
        if place and ":" not in above and not output.taken[number - 1] and (found := _RULE_NAME.match(above)):
            yield Mention(
                found["message"], "ruff", number - 1, number, place["path"], int(place["line"]), column=place["column"]
            )


def _linter(output: Output, found: re.Match[str]) -> str:
    for tool in ("ruff", "flake8", "pylint", "pycodestyle", "pyflakes", "pydocstyle"):
        if tool in output.words:
            return tool if tool in ("ruff", "pylint") else "flake8"
    if found["colon"] and found["code"] not in ("SyntaxError", "invalid-syntax"):
        return "pylint"
    if (
        found["fix"]
        or not found["code"][-1].isdigit()
        or re.search(r"^Found \d+ errors?|^\[\*\] \d+ fixable", output.text, re.MULTILINE)
    ):
        return "ruff"
    return "flake8"


def read_go(output: Output) -> Iterator[Mention]:
    """`./main.go:7:2: undefined: x` of go build and go vet, and go's own complaints of modules and packages."""
    under_package = False
    vet = "go vet" in output.words
    lint = "golangci-lint" in output.words or "staticcheck" in output.words
    for number, line in enumerate(output.lines):
        if output.taken[number] or not line:
            continue
        if line[0] == "#":
            under_package = bool(_GO_PACKAGE.match(line))
        elif ".go:" in line and (found := _GO.match(line)):
            compiling = found["vet"] or not (vet or lint) or _GO_COMPILER.match(found["message"])
            tool = "go" if compiling else "go vet" if vet else "golangci-lint"
            if (
                under_package
                or found["vet"]
                or output.words
                & {"go build", "go run", "go vet", "go test", "go install", "golangci-lint", "gofmt", "staticcheck"}
            ):
                yield _mention(found, tool, number)
        elif (
            (line.startswith("go.mod:") and (found := _GO_LIST.match(line)))
            or (line.startswith("go: ") and (found := _GO_TOOL.match(line)))
            or (line[0] in "pni" and (found := _GO_PLAIN.match(line)))
        ):
            yield _mention(found, "go", number)
        elif line[0] not in " \t":
            under_package = False


def read_annotations(output: Output) -> Iterator[Mention]:
    """`::error file=a.py,line=3::…` for GitHub and `##vso[task.logissue …]` for Azure, which many tools write."""
    for number, line in output.having("::error "):
        if found := _ANNOTATION.match(line):
            yield _annotation(found, dict(_fields(found, ",")), ("file", "line"), number, output)
    for number, line in output.having("##vso["):
        if found := _AZURE.match(line):
            fields = dict(_fields(found, ";"))
            if fields.get("type", "error") == "error":
                yield _annotation(found, fields, ("sourcepath", "linenumber"), number, output)


def _fields(found: re.Match[str], separator: str) -> Iterator[tuple[str, str]]:
    for field in found["fields"].split(separator):
        name, _, value = field.partition("=")
        yield name, value


def _annotation(
    found: re.Match[str], fields: dict[str, str], names: tuple[str, str], number: int, output: Output
) -> Mention:
    known = ("ruff", "mypy", "eslint", "tsc", "pyright")
    tool = next((name for name in known if name in output.words or name in found.string), "lint")
    path, at = (fields.get(name, "") for name in names)
    message = found["message"].partition("%0A")[0]
    return Mention(message, tool, number, number, path or None, int(at) if at.isdecimal() else None)


def read_maven(output: Output) -> Iterator[Mention]:
    """`[ERROR] /p/App.java:[5,9] cannot find symbol`, which Maven tells twice."""
    for number, line in output.having("[ERROR] "):
        if found := _MAVEN.match(line):
            yield _mention(found, "maven", number)


def _mention(found: re.Match[str], tool: str, number: int, *, follows: bool = False) -> Mention:
    groups = found.groupdict()
    line = groups.get("line")
    column = _COLUMN.search(found.string, found.end("line"), found.start("message")) if line else None
    return Mention(
        groups["message"], tool, number, number, groups.get("path"), int(line) if line else None, follows,
        column=column[0] if column else "",
    )  # fmt: skip
