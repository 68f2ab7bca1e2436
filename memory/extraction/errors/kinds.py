"""Which `ErrorType` an error has: by what was raised, then by the tool that reported it.

| What | Type |
|---|---|
| a failing test, whatever it raised (pytest, unittest, jest, mocha, vitest, go test, cargo test) | Test |
| code that does not parse, also where a test runner or a linter met it; compilers; type checkers; linkers | Compile |
| a rule of a linter or formatter (ruff, flake8, pylint, eslint, go vet, clippy) | Lint |
| access refused by the system (PermissionError, EACCES, EPERM, `Permission denied`) | Permission |
| a broken assertion outside of tests (AssertionError, `Assertion … failed`, `assertion failed`) | Logic |
| any other exception, panic or crash; a command that is missing; a file that is not there; a package manager | Runtime |
"""

from __future__ import annotations

import re

from sluice.contracts.memory.model import ErrorType

TEST_RUNNERS = frozenset({"pytest", "unittest", "jest", "vitest", "mocha", "node test", "go test", "cargo test"})
COMPILERS = frozenset({
    "gcc", "clang", "ld", "javac", "kotlinc", "swiftc", "tsc", "mypy", "pyright", "rustc", "cargo", "go", "maven",
    "cmake",
})  # fmt: skip
LINTERS = frozenset(
    {"ruff", "flake8", "pylint", "black", "eslint", "go vet", "golangci-lint", "clippy", "prettier", "lint"}
)

_SYNTAX = re.compile(
    r"(?:\w+\.)*(?:SyntaxError|IndentationError|TabError|TSError)\b|invalid-syntax\b|E999\b|E902 (?:Syntax|Indent|Token)"
    r"|Parsing error:|syntax error\b"
)
_PERMISSION = re.compile(
    r"PermissionError\b|\bEACCES\b|\bEPERM\b|[Pp]ermission denied|[Oo]peration not permitted|Access is denied"
    r"|AccessDeniedException"
)
_ASSERTION = re.compile(
    r"(?:java\.lang\.)?AssertionError\b|\bAssertion `|[Aa]ssertion (?:\S{1,9} )?failed|assert(?:ion)? .{1,300}failed"
)


def kind_of(tool: str, message: str) -> ErrorType:
    """The type of an error that `tool` reported with `message`, by the table above."""
    if _SYNTAX.match(message):
        return ErrorType.COMPILE
    if tool in TEST_RUNNERS:
        return ErrorType.TEST
    if tool in COMPILERS:
        return ErrorType.COMPILE
    if tool in LINTERS:
        return ErrorType.LINT
    if _PERMISSION.search(message):
        return ErrorType.PERMISSION
    if _ASSERTION.match(message):
        return ErrorType.LOGIC
    return ErrorType.RUNTIME
