"""`sluice flags`: features switched on and off at run time, and who decides each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sluice.cli.choices import FLAG_VARIABLES as VARIABLES
from sluice.cli.connection import connected
from sluice.cli.operate.dead_letter_options import Note
from sluice.cli.output import AsJson, console, error_console, print_json, print_table

if TYPE_CHECKING:
    from sluice_client.models import FlagResult, FlagState

flags = typer.Typer(help="Feature flags: switch features on and off at run time.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(VARIABLES)}.")]
Operator = Annotated[str | None, typer.Option(help="Who does it; without it, the user of this machine. Recorded.")]


@flags.command("list")
def list_flags(as_json: AsJson = False) -> None:
    """List every flag: whether it is on, and who decides it (kill_switch, policy, environment, stored, default)."""
    with connected(as_json=as_json) as client:
        found = client.flags()
        if as_json:
            print_json(found)
            return
        rows = [
            (
                x.name,
                "on" if x.enabled else "off",
                x.decided_by,
                x.why,
                VARIABLES.get(x.name),
                x.operator,
                x.changed_at,
            )
            for x in found
        ]
        print_table("flags", ("flag", "is", "decided by", "why", "variable", "operator", "changed"), rows)


@flags.command("on")
def switch_on(name: Name, operator: Operator = None, note: Note = "", as_json: AsJson = False) -> None:
    """Switch a feature on, unless kill switch, policy or environment say otherwise."""
    _change(name, "on", operator, note, as_json=as_json)


@flags.command("off")
def switch_off(name: Name, operator: Operator = None, note: Note = "", as_json: AsJson = False) -> None:
    """Switch a feature off, unless the environment says otherwise. Of search or crawl what waits is cancelled."""
    _change(name, "off", operator, note, as_json=as_json)


@flags.command("kill")
def kill(name: Name, operator: Operator = None, note: Note = "", as_json: AsJson = False) -> None:
    """Hold a feature off, whatever else decides, until it is reset. Of search or crawl what waits is cancelled."""
    _change(name, "kill", operator, note, as_json=as_json)


@flags.command("reset")
def reset(name: Name, operator: Operator = None, note: Note = "", as_json: AsJson = False) -> None:
    """Take back what is stored of a flag, its kill switch too: environment or default decide then."""
    _change(name, "reset", operator, note, as_json=as_json)


@flags.command("history")
def history(name: Name, as_json: AsJson = False) -> None:
    """Show what operators did to a flag."""
    with connected(as_json=as_json) as client:
        found = client.flag_history(name)
        if as_json:
            print_json(found)
            return
        rows = [(one.at, one.operator, one.action, one.note) for one in found]
        print_table(f"flag {name}", ("at", "operator", "action", "note"), rows)


Action = Literal["on", "off", "kill", "reset"]


def _change(name: str, action: Action, operator: str | None, note: str, *, as_json: bool) -> None:
    with connected(as_json=as_json, operator=operator) as client:
        if action == "reset":
            result = client.reset_flag(name, note)
        else:
            result = client.set_flag(name, action == "on", kill=action == "kill", note=note)
        if as_json:
            print_json(result)
            return
        _print_result(result)
        if action in ("on", "off") and result.state.enabled != (action == "on"):
            error_console.print(_overruled(result.state), markup=False, highlight=False, soft_wrap=True)


def _print_result(result: FlagResult) -> None:
    state, run = result.state, f": sluice runs {result.run_id}" if result.run_id else "; nothing changed"
    purged = f", {result.purged} directives cancelled" if result.purged else ""
    told = f"{state.name} is {'on' if state.enabled else 'off'} (decided by {state.decided_by}){purged}{run}"
    console.print(told, markup=False, highlight=False, soft_wrap=True)


def _overruled(state: FlagState) -> str:
    """Why what was stored does not decide, and what would."""
    remedy = f"`sluice flags kill {state.name}` switches it off all the same" if state.enabled else "change that first"
    return f"it is stored, but {state.decided_by} decides ({state.why}): {remedy}"
