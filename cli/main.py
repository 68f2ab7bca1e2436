"""Finds the commands of `commands.toml`, and imports a command's module only when the command is called.

So `sluice --help` answers at once, whatever the commands need, and a process can set its metrics folder before
anything that measures is imported.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import json
import os
import platform
import sys
import tomllib
from collections.abc import Callable
from datetime import datetime
from importlib.resources import files
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

INTERRUPTED = 130


class Entry(NamedTuple):
    """A command before it is loaded: `module:function`, empty for a group of commands."""

    target: str
    summary: str
    panel: str


_TABLE: dict[str, Any] = tomllib.loads(files("sluice.cli").joinpath("commands.toml").read_text("utf-8"))
COMMANDS = {
    name: Entry("", told, panel) if isinstance(told, str) else Entry(told[0], told[1], panel)
    for panel, some in _TABLE["commands"].items()
    for name, told in some.items()
}
GROUPS: dict[str, dict[str, str]] = _TABLE["groups"]
FORMER_NAMES: dict[str, str] = _TABLE["former"]
EXAMPLES: tuple[str, ...] = tuple(_TABLE["help"]["examples"].splitlines())
LEFT_OUT = {"eval": "retrieval", "config": "show"}
"""`sluice eval PATH` is `sluice eval retrieval PATH`."""
ALONE = {"config"}
"""Groups that do so without an argument too."""


class Ready(NamedTuple):
    """An option's type for typer that passes on text, choices and defaults as they are. typer has pydantic convert
    every value, and importing that takes a third of the time of most commands; other values are still converted so.
    Should typer move its converters, commands become slower and nothing else."""

    parameter: Any

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value, converted where necessary."""
        several = self.parameter.multiple or self.parameter.nargs == -1
        if value is None:
            return () if several else None
        kind = self.parameter.type_descriptor.annotation
        if not several and (_is_of(value, kind) or (value is self.parameter.default and not isinstance(value, str))):
            return value
        vars(self.parameter)["_runtime_param"] = None
        return self.parameter.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _is_of(value: Any, kind: Any) -> bool:
    return (kind is str and isinstance(value, str)) or (get_origin(kind) is Literal and value in get_args(kind))


class Group(TyperGroup):
    """A group of commands that shows its help, and ends well, when no command is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as click does, but show the help where there are no arguments."""
        if not args and self.name in ALONE:
            args = [LEFT_OUT[str(self.name)]]
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        if self.name in LEFT_OUT and args and args[0] not in self.commands and args[0] != "--help":
            args = [LEFT_OUT[self.name], *args]
        _make_ready(self.get_params(ctx))
        return super().parse_args(ctx, args)


class Leaf(TyperCommand):
    """A command whose options are converted without pydantic where they can be."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as typer does."""
        _make_ready(self.get_params(ctx))
        return super().parse_args(ctx, args)


def _make_ready(parameters: list[Any]) -> None:
    for parameter in parameters:
        vars(parameter)["_runtime_param"] = Ready(parameter)


class LazyGroup(Group):
    """The commands of `COMMANDS`: listed from the table, loaded when called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the real command in place of its entry in the table, also for a former name."""
        for count in (3, 2, 1):
            if present := FORMER_NAMES.get(" ".join(args[:count])):
                args = [*present.split(), *args[count:]]
                break
        name, placeholder, rest = super().resolve_command(ctx, args)
        return name, load(str(name), rest[0] if rest else "") if name in COMMANDS else placeholder, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command. An interruption prints a sentence, no traceback; a misspelt option gets a suggestion."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            sys.stderr.write("interrupted; what was accepted goes on (see `sluice runs`)\n")
            raise typer.Exit(INTERRUPTED) from error
        except Exception as error:
            if close := getattr(error, "possibilities", None):  # click's error for an unknown option
                vars(error).update(message=f"{vars(error)['message']}. Did you mean {close[0]}?", possibilities=None)
            raise


def load(name: str, within: str = "") -> Any:
    """Import a command by its name in the table. Of a group, import only the command named `within`, if it exists."""
    gc.disable()  # a collection would run a hundred times, a tenth of the time, and there is no garbage yet
    members = GROUPS.get(name, {})
    made = typer.Typer(
        name=name,
        cls=Group,
        help=COMMANDS[name].summary,
        epilog=examples_of(name),
        no_args_is_help=bool(members),
        add_completion=bool(members),
    )
    wanted = {within: members[within]} if within in members else members or {name: COMMANDS[name].target}
    for own_name, target in wanted.items():
        module, _, attribute = target.partition(":")
        command = getattr(importlib.import_module(f"sluice.cli.{module}"), attribute)
        path = (name, own_name) if members else (name,)
        _declare(command, *path)
        made.command(own_name, cls=Leaf, epilog=examples_of(*path))(command)
    gc.enable()
    return get_group(made) if members else get_command(made)


def examples_of(*command: str) -> str:
    """Return the lines below the help of a command (`dead`, `list`) or of a group (`dead`), as Markdown."""
    found = [example for example in EXAMPLES if example.split()[: len(command)] == [*command]]
    return "\n\n".join(["Examples:" if len(found) > 1 else "Example:", *(f"`sluice {one}`" for one in found)])


def _declare(command: Callable[..., Any], *name: str) -> None:
    """Make each parameter of a command the option or argument that the table describes. A table of `options` has the
    name of a command, of its group, or `*`; the nearest one counts. A parameter in none of them is an argument without
    help, or declares itself."""
    options = _TABLE["options"]
    told = {**options["*"], **options.get(name[0], {}), **options.get(" ".join(name), {})}
    parameters = [
        one.replace(annotation=Annotated[one.annotation, _described(one, told[one.name])])
        if one.name in told and get_origin(one.annotation) is not Annotated
        else one
        for one in inspect.signature(command, eval_str=True).parameters.values()
    ]
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {one.name: one.annotation for one in parameters}


def _described(parameter: inspect.Parameter, told: str | list[str] | dict[str, Any]) -> Any:
    """Return typer's description of a parameter. A flag has an opposite only where its names include one."""
    more = dict(told) if isinstance(told, dict) else {"help": told if isinstance(told, str) else told[-1]}
    names = more.pop("names", told[:-1] if isinstance(told, list) else [])
    if "argument" in more:
        return typer.Argument(help=more.pop("argument"), **more)
    if datetime in (parameter.annotation, *get_args(parameter.annotation)):
        from sluice.cli.command import moment

        more |= {"parser": moment, "metavar": "WHEN"}
    if parameter.annotation is bool and not names:
        names = [f"--{parameter.name.replace('_', '-')}"]
    return typer.Option(*names, **more)


def version(as_json: bool = False) -> None:
    """Print the version."""
    facts = _versions()
    typer.echo(json.dumps(facts, indent=2) if as_json else _told(facts))


def _versions() -> dict[str, str]:
    from importlib.metadata import version as version_of  # reads packages' metadata: costly for the other commands

    return {"sluice": version_of("sluice"), "python": platform.python_version()}


def _told(versions: dict[str, str]) -> str:
    return f"sluice {versions['sluice']} (Python {versions['python']})"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(_told(_versions()))
        raise typer.Exit


def _make_app() -> typer.Typer:
    app = typer.Typer(
        name="sluice",
        cls=LazyGroup,
        help="Search-gated retrieval for AI agents.",
        epilog=_TABLE["help"]["exit_codes"],
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    for name, entry in COMMANDS.items():
        app.command(name, help=entry.summary, rich_help_panel=entry.panel)(_placeholder)

    @app.callback()
    def _root(
        version: Annotated[
            bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
        ] = False,
        url: Annotated[
            str | None,
            typer.Option(help="The instance; by default SLUICE_URL, else the one whose data directory is found here."),
        ] = None,
    ) -> None:
        """The options of `sluice` itself."""
        if url is not None:
            os.environ["SLUICE_URL"] = url

    return app


def _placeholder() -> None:
    """Stand in the table until the command is loaded."""


app = _make_app()


def main() -> None:
    """Run the command line. Files that it and its child processes write are readable by this user alone."""
    os.umask(0o077)  # here, where every process begins; workers.data_dir corrects older files
    app(prog_name="sluice")
