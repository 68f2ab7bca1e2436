"""The table of tools: which programs each is, and who reads its output. Earlier ones take their lines first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sluice.memory.extraction.errors.cmake import read_cmake
from sluice.memory.extraction.errors.diagnostics import (
    read_annotations,
    read_gcc,
    read_go,
    read_maven,
    read_mypy,
    read_rules,
    read_tsc,
)
from sluice.memory.extraction.errors.found import Mention
from sluice.memory.extraction.errors.go_test import read_go_test
from sluice.memory.extraction.errors.java import read_java
from sluice.memory.extraction.errors.javascript import read_eslint, read_node
from sluice.memory.extraction.errors.javascript_tests import read_jest, read_mocha
from sluice.memory.extraction.errors.json_reports import read_json
from sluice.memory.extraction.errors.node_test import read_node_test
from sluice.memory.extraction.errors.output import Output
from sluice.memory.extraction.errors.pytest_report import read_pytest
from sluice.memory.extraction.errors.python_traceback import read_tracebacks
from sluice.memory.extraction.errors.rust import read_panics, read_rustc
from sluice.memory.extraction.errors.shell import read_git, read_make, read_npm, read_pip, read_shell
from sluice.memory.extraction.errors.unittest_report import read_unittest

Read = Callable[[Output], Iterator[Mention]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A reader, the programs whose output it reads, and marks of which one is in every output that concerns it.

    `anywhere`: its shape is met whatever was run (a traceback, a missing command). `only`: its shape is too common to
    be looked for where another program was run.
    """

    read: Read
    programs: frozenset[str]
    marks: tuple[str, ...]
    anywhere: bool = False
    only: bool = False


def _tool(read: Read, programs: str, *marks: str, anywhere: bool = False, only: bool = False) -> Tool:
    return Tool(read, frozenset(programs.split()), marks, anywhere, only)


TOOLS = (
    _tool(read_json, "", '"message', '"runs"', '"fingerprint"', anywhere=True),
    _tool(read_annotations, "ruff eslint mypy pyright", "::error ", "##vso["),
    _tool(read_pytest, "pytest", "FAILED ", "ERROR ", "= FAILURES =", "= ERRORS =", "conftest", " FAILED", "ERROR: "),
    _tool(read_unittest, "unittest django python", "FAIL: ", "ERROR: "),
    _tool(read_jest, "jest vitest react-scripts", " ● ", " ❯ "),
    _tool(read_node_test, "node", "not ok ", "✖ failing tests:"),
    _tool(read_mocha, "mocha", " failing"),
    _tool(read_go_test, "go gotestsum", "--- FAIL: ", "panic: ", "fatal error: "),
    _tool(read_panics, "cargo rust", "panicked at ", "... FAILED", "stdout ----"),
    _tool(read_rustc, "cargo rustc clippy-driver", "error"),
    _tool(read_tracebacks, "python", "Traceback (most recent call last)", '  File "', anywhere=True),
    _tool(read_node, "node ts-node tsx", "    at ", "Node.js v", "--trace-uncaught", "Uncaught", anywhere=True),
    _tool(read_java, "java", "Exception in thread"),
    _tool(read_maven, "mvn mvnw", "[ERROR] "),
    _tool(read_mypy, "mypy dmypy pyright basedpyright", "error:", "mypy: "),
    _tool(read_tsc, "tsc ts-node vue-tsc tsx", "error TS"),
    _tool(read_rules, "ruff flake8 pycodestyle pyflakes pydocstyle pylint black", ":", "ould reformat"),
    _tool(read_eslint, "eslint stylelint prettier standard xo", "error", "Error", "Oops!", "[warn] ", "✖", "couldn't find"),
    _tool(read_go, "go gofmt golangci-lint staticcheck", ".go:", "go: ", "go.mod:", "package ", "pattern "),
    _tool(read_gcc, "gcc g++ cc c++ clang clang++ ld javac kotlinc swiftc ninja cmake protoc", "error: ", "undefined reference", "multiple definition", "ld: "),
    _tool(read_cmake, "cmake", "CMake Error", anywhere=True),
    _tool(read_npm, "npm yarn pnpm npx", "npm error", "npm ERR!", "error ", "ERR_PNPM", "ELIFECYCLE", anywhere=True),
    _tool(read_pip, "pip uv", "ERROR: "),
    _tool(read_git, "git", "fatal: ", "error: ", "CONFLICT ", only=True),
    _tool(read_make, "make gmake", "*** "),
    _tool(read_shell, "bash sh zsh dash ksh", ": ", "core dumped", "Segmentation fault", "Killed", anywhere=True),
)  # fmt: skip

KNOWN_PROGRAMS = frozenset().union(*(tool.programs for tool in TOOLS)) - {
    # These run anything.
    "python", "django", "make", "gmake", "ninja", "cmake", "npm", "yarn", "pnpm", "npx", "bash", "sh", "zsh", "dash",
    "ksh", "node", "ts-node", "tsx", "java", "mvn", "mvnw", "cargo", "uv", "git", "go", "react-scripts",
}  # fmt: skip
