"""`sluice` itself: its help, its version, its completion, and what it says of a misspelt word."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import COMMANDS, EXAMPLES, FORMER_NAMES, app, load


def sluice(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), prog_name="sluice")


@pytest.mark.parametrize("arguments", [(), ("dead",), ("gate",)])
def test_alone_it_shows_its_help_and_ends_well(arguments: tuple[str, ...]) -> None:
    shown, asked = sluice(*arguments), sluice(*arguments, "--help")
    assert shown.exit_code == 0
    assert "Commands" in shown.output or "Operate" in shown.output
    assert shown.output.split() == asked.output.split()


def test_the_version_is_an_option_and_a_command() -> None:
    assert sluice("--version").output == sluice("version").output
    assert sluice("--version").output.startswith("sluice ")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("querry", "x"), "Did you mean 'query'?"),
        (("dead", "lst"), "Did you mean 'list'?"),
        (("query", "x", "--topk", "3"), "Did you mean --top-k?"),
        (("dead", "list", "--stag", "crawl"), "Did you mean --stage?"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_one_that_was_meant(arguments: tuple[str, ...], meant: str) -> None:
    result = sluice(*arguments)
    assert result.exit_code == 2
    assert meant in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_script_for_each_shell(shell: str) -> None:
    told = completed(shell, "", action=f"source_{shell}")
    assert "_SLUICE_COMPLETE" in told


@pytest.mark.parametrize(
    ("shell", "typed", "completion"),
    [
        ("bash", "sluice snap", "snapshot"),
        ("zsh", "sluice dead pur", "purge"),
        ("fish", "sluice query --max-p", "--max-per-domain"),
    ],
)
def test_commands_groups_and_options_are_completed(shell: str, typed: str, completion: str) -> None:
    assert completion in completed(shell, typed)


def leaves() -> list[tuple[str, ...]]:
    return [(name, *rest) for name in COMMANDS for rest in ([(one,) for one in shown(load(name))] or [()])]


def shown(group: Any) -> list[str]:
    return [name for name, command in getattr(group, "commands", {}).items() if not command.hidden]


@pytest.mark.parametrize("command", leaves(), ids=" ".join)
def test_every_command_shows_an_example_whose_words_it_knows(command: tuple[str, ...]) -> None:
    examples = [shlex.split(one) for one in EXAMPLES if tuple(one.split()[: len(command)]) == command]
    assert examples, f"no example of {command}"
    for example in examples:
        shown = sluice(*example, "--help")
        assert shown.exit_code == 0, shown.output
        assert f"sluice {' '.join(command)}" in " ".join(shown.output.split())


def test_every_option_has_its_sentence_and_every_sentence_its_option() -> None:
    table = tomllib.loads(files("sluice.cli").joinpath("commands.toml").read_text("utf-8"))["options"]
    options: dict[str, set[str]] = {}
    for name in leaves():
        command = load(name[0]) if len(name) == 1 else load(name[0]).commands[name[1]]
        for parameter in command.params:
            assert getattr(parameter, "help", None) or not parameter.opts[0].startswith("-"), (name, parameter.name)
            for section in ("*", name[0], " ".join(name)):
                options.setdefault(section, set()).add(parameter.name)
    assert {section: set(told) - options[section] for section, told in table.items()} == {
        section: set() for section in table
    }


def test_every_example_is_of_a_command() -> None:
    known = set(leaves())
    for example in EXAMPLES:
        words = tuple(example.split())
        assert words[:1] in known or words[:2] in known, example


@pytest.mark.parametrize("former", FORMER_NAMES.items(), ids=" ".join)
def test_a_former_name_runs_the_same_command_and_no_help_shows_it(former: tuple[str, str]) -> None:
    name, present = former
    told = sluice(*name.split(), "--help")
    assert told.exit_code == 0
    options, present_options = (
        one.output.partition("Options")[2] for one in (told, sluice(*present.split(), "--help"))
    )
    assert options.partition("Example")[0] == present_options.partition("Example")[0] != ""
    above = sluice(*name.split()[:-1], "--help").output
    assert f"│ {name.split()[-1]} " not in above


@pytest.mark.parametrize("arguments", [("cases.jsonl",), ("run", "cases.jsonl"), ("retrieval", "cases.jsonl")])
def test_retrieval_may_be_left_out(arguments: tuple[str, ...]) -> None:
    assert "cases.jsonl" in sluice("eval", *arguments).output  # it is missing, and named


def completed(shell: str, typed: str, action: str = "") -> str:
    """What the program tells the shell that asks for completions, as the shell's script asks."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")},
        "_SLUICE_COMPLETE": action or f"complete_{shell}",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
        "_TYPER_COMPLETE_ARGS": typed,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": typed.split()[-1] if typed else "",
        "PYTHONPATH": str(Path(__file__).parents[3] / "src"),
    }
    program = [sys.executable, "-m", "sluice.cli"]
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=False).stdout
