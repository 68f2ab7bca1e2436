"""Reads tools' text on sources of others and compares it with what the same tools say in JSON.

`python -m bench.memory.errors.against_json FOLDER` (a copy: pytest's part changes files in it). mypy and ruff run over
its Python files, eslint over its JavaScript. For pytest an error is raised in the first line of functions of
the sources, one at a time, and the failing tests are counted in pytest's own JUnit report.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from bench.memory.errors.score import Found, Score
from sluice.memory.extraction.errors import find_errors
from sluice.memory.extraction.errors.find import MAX_FOUND

TIMEOUT_SECONDS = 300
MAX_INJECTED = 40


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--tests", help="what pytest runs, in the folder (left out: no injected errors)")
    arguments.add_argument("--eslint", action="store_true")
    given = arguments.parse_args()
    folder = given.folder.resolve()
    python = sorted(folder.rglob("*.py"))
    scores: dict[str, Score] = {}
    for number in range(0, len(python), 4):
        files = [str(path.relative_to(folder)) for path in python[number : number + 4]]
        compare(
            scores,
            folder,
            "mypy --strict --follow-imports silent",
            files,
            "-O json",
            mypy_json,
            ["", "--pretty", "--show-column-numbers"],
        )
        compare(scores, folder, "ruff check --isolated --select E,F,B,UP,S,N", files, "--output-format json", ruff_json,
                ["--output-format concise", "--output-format full", "--output-format grouped"])  # fmt: skip
    if given.eslint:
        for path in sorted(folder.rglob("*.js")):
            compare(scores, folder, "eslint", [str(path.relative_to(folder))], "-f json", eslint_json, ["", "--color"])
    if given.tests:
        injected(scores, folder, given.tests)
    for tool, score in scores.items():
        print(f"{tool:60} {score.expected:5} errors  {score}")


def compare(scores: dict[str, Score], folder: Path, tool: str, files: list[str], as_json: str, read, styles) -> None:  # type: ignore[no-untyped-def]
    """One tool on some files: its JSON against each style of its text."""
    truth = list(read(run(folder, f"{tool} {as_json} {' '.join(files)}")[0], folder))
    if not truth or len(truth) > MAX_FOUND:
        return
    for style in styles:
        command = f"{tool} {style} {' '.join(files)}"
        output, code = run(folder, command)
        add(scores, f"{tool} {style}", command, output, code, folder, truth)


def add(
    scores: dict[str, Score], name: str, command: str, output: str, code: int, folder: Path, truth: list[Found]
) -> None:
    told = find_errors(output, command=command, exit_code=code, root=str(folder))
    found = [(one.error_type.value, one.file_path, one.line) for one in told]
    if not scores.setdefault(name, Score()).add(found, truth):
        wrong, missed = sorted(map(str, set(found) - set(truth))), sorted(map(str, set(truth) - set(found)))
        print(f"--- {command}\nfound    {wrong}\nexpected {missed}")


def run(folder: Path, command: str) -> tuple[str, int]:
    done = subprocess.run(command, shell=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=TIMEOUT_SECONDS, check=False)  # fmt: skip
    return done.stdout.decode("utf-8", "replace"), done.returncode


def mypy_json(text: str, folder: Path) -> Iterator[Found]:
    seen = set()
    for line in text.split("\n"):
        one = json.loads(line) if line.startswith("{") else {}
        key = (one.get("file"), one.get("line"), one.get("column"), one.get("message"))
        if one.get("severity") == "error" and key not in seen:
            seen.add(key)
            yield "Compile", one["file"], one["line"]


def ruff_json(text: str, folder: Path) -> Iterator[Found]:
    seen = set()
    for one in json.loads(text[text.index("[") :]):
        path = str(Path(one["filename"]).relative_to(folder))
        key = (path, *one["location"].values(), one["code"], one["message"])
        if key not in seen:
            seen.add(key)
            yield (
                "Compile" if not one["code"] or one["code"] == "invalid-syntax" else "Lint",
                path,
                one["location"]["row"],
            )


def eslint_json(text: str, folder: Path) -> Iterator[Found]:
    seen = set()
    for one in json.loads(text[text.index("[{") :]) if "[{" in text else ():
        path = str(Path(one["filePath"]).relative_to(folder))
        for message in one["messages"]:
            key = (path, message.get("line"), message.get("column"), message["message"], message["ruleId"])
            if message["severity"] == 2 and key not in seen:
                seen.add(key)
                yield "Compile" if message.get("fatal") else "Lint", path, message.get("line")


def injected(scores: dict[str, Score], folder: Path, tests: str) -> None:
    """An error raised in one function of the sources after another; every test that met it must be told there."""
    places = [
        (path, node.body[0].lineno, node.body[0].col_offset)
        for path in sorted(folder.rglob("*.py"))
        if "test" not in str(path.relative_to(folder))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno > node.lineno
    ]
    styles = ("", "-q", "--tb=short", "--tb=native", "-v -ra", "--tb=line -q", "--color=yes", "-n 2", "-s")
    for number, (path, line, column) in enumerate(random.Random(18).sample(places, min(MAX_INJECTED, len(places)))):
        before = path.read_text("utf-8")
        lines = before.split("\n")
        lines[line - 1 : line - 1] = [" " * column + "raise RuntimeError('injected')"]
        try:
            ast.parse("\n".join(lines))
        except SyntaxError:
            continue
        path.write_text("\n".join(lines), encoding="utf-8")
        command = f"pytest {styles[number % len(styles)]} {tests}"
        output, code = run(folder, f"{command} --junitxml=/tmp/junit.xml -p no:cacheprovider")
        path.write_text(before, encoding="utf-8")
        cases = ElementTree.parse("/tmp/junit.xml").iter("testcase")
        failures = [one for case in cases for one in case if one.tag in ("failure", "error")]
        injected_here = [
            one for one in failures if re.search(rf"{re.escape(path.name)}[:\"].{{0,8}}{line}\b", one.text or "")
        ]
        if not failures or len(failures) > MAX_FOUND or len(injected_here) < len(failures):
            continue
        truth: list[Found] = [("Test", str(path.relative_to(folder)), line)] * len(failures)
        add(scores, f"pytest {styles[number % len(styles)]}", command, output, code, folder, truth)


if __name__ == "__main__":
    main()
