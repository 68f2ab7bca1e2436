"""The commands at a glance, and how one becomes code: its module is imported only when it is called.

So `sluice --help` answers at once, whatever the commands themselves need; and a process can name the folder of
its metrics before anything that measures is imported.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import platform
import sys
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from sluice.cli.examples import examples_of

INTERRUPTED = 130

EXIT_CODES = """Exit codes:

- **0** done
- **1** done, with a bad end: a failed run, check or verification; or an error without a code of its own
- **2** a wrong argument, file or setting
- **3** not found
- **4** forbidden by a rule or for want of a right
- **5** contradicts what is recorded or running
- **6** a part does not answer, or not in time
- **7** full: a queue or a rate has no room, come back later
- **130** interrupted"""


class Entry(NamedTuple):
    """A command before it is loaded: `module:attribute` of its function or of its group of commands."""

    target: str
    summary: str
    panel: str


_AGENT, _OPERATOR, _PROCESS = "Ask and feed", "Operate", "Run"

COMMANDS = {
    "ask": Entry("agent.ask:ask", "Ask the gate, and wait for the cited answer.", _AGENT),
    "query": Entry("agent.ask:query", "Search the corpus as it is, without the gate.", _AGENT),
    "show": Entry(
        "agent.show:show",
        "Show the text of a document, by its id, URL or path, with the lines that citations name.",
        _AGENT,
    ),
    "ingest": Entry(
        "agent.ingest:ingest",
        "Read files or a repository into the corpus, and wait until all of them can be found.",
        _AGENT,
    ),
    "crawl": Entry("agent.ingest:crawl", "Crawl pages into the corpus, and wait until they can be found.", _AGENT),
    "memory": Entry(
        "memory.commands:memory",
        "Memory: what an agent's iterations taught, in a folder of the project or in the instance.",
        _AGENT,
    ),
    "graph": Entry(
        "graph.commands:graph", "The graph of what is indexed: ask it, see how it stands, read it anew.", _AGENT
    ),
    "runs": Entry("operate.runs:runs", "Show one run, list the latest, or cancel one.", _OPERATOR),
    "trace": Entry(
        "operate.trace:trace", "Draw the steps of a run as a waterfall, from the local span store.", _OPERATOR
    ),
    "dead": Entry("operate.dead_letters:dead", "Dead letters: events that could not be handled.", _OPERATOR),
    "quarantine": Entry(
        "operate.quarantine:quarantine",
        "Quarantine: chunks that the guard blocked when they were ingested; list, show, release, purge.",
        _OPERATOR,
    ),
    "sign": Entry("agent.sign:sign", "Sign a document, so that its origin can be trusted.", _AGENT),
    "forget": Entry(
        "operate.forget:forget", "Remove documents with every trace of them, and keep them out.", _OPERATOR
    ),
    "flags": Entry(
        "operate.control:flags",
        "Feature flags: who decides each, what operators did to one, and switching it at run time.",
        _OPERATOR,
    ),
    "stages": Entry(
        "operate.control:stages",
        "Stages: what waits in each, the threads that serve it, which are paused; pause or resume one.",
        _OPERATOR,
    ),
    "hosts": Entry("operate.control:hosts", "Hosts: what the crawl asked of each, and how that went.", _OPERATOR),
    "snapshot": Entry(
        "operate.snapshots:snapshot",
        "List the generations of each corpus, the newest first; verify, roll back or copy them.",
        _OPERATOR,
    ),
    "rebuild": Entry("operate.snapshots:rebuild", "Rebuild the index from the journal and publish it.", _OPERATOR),
    "reindex": Entry("operate.reindex:reindex_corpus", "Embed a corpus anew with another model, then swap.", _OPERATOR),
    "freshness": Entry(
        "operate.freshness:freshness",
        "Freshness: what is new, changed or gone since the last job, as a plan.",
        _OPERATOR,
    ),
    "gate": Entry("quality.gate:gate", "The gate's decisions, profiles and models.", _OPERATOR),
    "prompts": Entry(
        "agent.prompts:prompts", "Prompt templates: what `sluice ask --prompt` makes of an answer.", _AGENT
    ),
    "eval": Entry(
        "quality.eval:evaluation",
        "How well it works: retrieval by known answers, the gate's runs, and whether what is served can be trusted.",
        _OPERATOR,
    ),
    "feedback": Entry(
        "quality.feedback:feedback", "Say what became of an answer: one run's, or in bulk from a file.", _AGENT
    ),
    "keys": Entry("operate.upkeep:keys", "API keys: list them, create one, revoke one.", _OPERATOR),
    "migrate": Entry(
        "operate.upkeep:migrate", "Bring an older ledger to this version; a copy is taken first.", _OPERATOR
    ),
    "prune": Entry("operate.upkeep:prune", "Remove runs that ended long ago from the ledger.", _OPERATOR),
    "init": Entry(
        "instance.init:init", "Write a sluice.toml with every setting, its default and its reason.", _PROCESS
    ),
    "config": Entry("instance.init:config", "Show each setting, its value, and where that comes from.", _PROCESS),
    "doctor": Entry("instance.doctor:doctor", "Check what this instance needs, and say what would help.", _PROCESS),
    "up": Entry("instance.processes:up", "Run every process: broker, workers, reconciler, HTTP interface.", _PROCESS),
    "worker": Entry("instance.processes:worker", "Run one worker of a stage, or of several.", _PROCESS),
    "reconcile": Entry("instance.processes:reconcile", "Run the reconciler.", _PROCESS),
    "api": Entry("instance.processes:api", "Run the HTTP interface.", _PROCESS),
    "version": Entry("main:version", "Print the version.", _PROCESS),
}


FORMER_NAMES = {
    "evaluate": "eval runs",
    "review": "eval review",
    "phase": "eval phase",
    "replay-decisions": "eval replay",
    "guard": "eval guard",
    "redteam": "eval redteam",
    "eval run": "eval retrieval",
    "eval report": "gate rollout --report",
    "gate report": "gate rollout --report",
    "gate shadow": "gate rollout --shadow",
    "gate rollback": "gate rollout --rollback",
    "gate canary start": "gate rollout --canary",
    "gate canary status": "gate rollout",
    "gate canary stop": "gate rollout --stop",
    "gate canary promote": "gate rollout --promote",
    "gate defences list": "gate defences",
    "gate defences lift": "gate defences --lift",
    "dead pause": "dead replays --pause",
    "dead resume": "dead replays --resume",
    "dead abort": "dead replays --abort",
    "quarantine list": "quarantine",
    "quarantine show": "quarantine",
    "quarantine release": "quarantine --release",
    "quarantine purge": "quarantine --purge",
    "flags list": "flags",
    "flags history": "flags",
    "flags on": "flags --on",
    "flags off": "flags --off",
    "flags kill": "flags --kill",
    "flags reset": "flags --reset",
    "stages list": "stages",
    "stages pause": "stages --pause",
    "stages resume": "stages --resume",
    "snapshot list": "snapshot",
    "snapshot verify": "snapshot --verify",
    "snapshot rollback": "snapshot --rollback",
    "snapshot push": "snapshot --push",
    "snapshot pull": "snapshot --pull",
    "cancel": "runs --cancel",
    "graph neighbours": "graph near",
    "graph linked": "graph near --by failing-tests",
    "graph nearest": "graph near --by meaning",
    "memory prune": "memory review --prune",
    "memory export": "memory recall",
    "prompts list": "prompts",
    "prompts show": "prompts",
    "keys list": "keys",
    "keys create": "keys --create",
    "keys revoke": "keys --revoke",
}
"""The first words of commands as they were: scripts, alerts and answers of older runs name them, and no help."""


class Ready(NamedTuple):
    """An option's type as typer wants it, for values that are of it as they come: text, choices, defaults.

    typer has pydantic convert every value, and importing that takes a third of the time of most commands. What needs
    it is still converted by it. Were typer to keep its converters elsewhere, commands would be slower and nothing else.
    """

    parameter: Any

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value, converted where it has to be."""
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
        """As click's, but for no arguments at all."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        _make_ready(self.get_params(ctx))
        return super().parse_args(ctx, args)


class Leaf(TyperCommand):
    """A command whose options are converted without pydantic where they can be."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer's."""
        _make_ready(self.get_params(ctx))
        return super().parse_args(ctx, args)


def _make_ready(parameters: list[Any]) -> None:
    for parameter in parameters:
        vars(parameter)["_runtime_param"] = Ready(parameter)


class LazyGroup(Group):
    """The commands of `COMMANDS`; listed from the table, loaded when called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The real command in place of its entry in the table, or of its former name."""
        for count in (3, 2, 1):
            if present := FORMER_NAMES.get(" ".join(args[:count])):
                args = [*present.split(), *args[count:]]
                break
        name, placeholder, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else placeholder, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command. An interruption ends with a sentence and not a traceback; a misspelt option is guessed."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            sys.stderr.write("interrupted; what was accepted goes on (see `sluice runs`)\n")
            raise typer.Exit(INTERRUPTED) from error
        except Exception as error:
            if close := getattr(error, "possibilities", None):  # click's error of an option that there is not
                vars(error).update(message=f"{vars(error)['message']}. Did you mean {close[0]}?", possibilities=None)
            raise


def load(name: str) -> Any:
    """Import a command by its name in the table."""
    module, _, attribute = COMMANDS[name].target.partition(":")
    gc.disable()  # it would look for garbage a hundred times, a tenth of the time, and there is none yet
    found = getattr(importlib.import_module(f"sluice.cli.{module}"), attribute)
    gc.enable()
    if isinstance(found, typer.Typer):
        _dress(found, name)
        return get_command(found)
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=Leaf, epilog=examples_of(name))(found)
    return get_command(alone)


def _dress(group: typer.Typer, *name: str) -> None:
    """Give a group its class, and each of its commands and groups their examples."""
    own_kind = group.info.cls
    if not (isinstance(own_kind, type) and issubclass(own_kind, Group)):
        group.info.cls = Group
    group.info.epilog = examples_of(*name)
    for command in group.registered_commands:
        command.cls, command.epilog = Leaf, examples_of(*name, str(command.name))
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _dress(inner.typer_instance, *name, str(inner.name))


def version(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")] = False,
) -> None:
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
        epilog=EXIT_CODES,
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
    """Stands in the table until the command is loaded."""


app = _make_app()


def main() -> None:
    """Run the command line. What it and its child processes write is for this user alone."""
    os.umask(0o077)  # here, where every process begins; workers.runtime.private_files mends what is older
    app(prog_name="sluice")
