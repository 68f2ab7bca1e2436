"""`sluice prompts`: the templates by which an answer becomes messages for a language model."""

from __future__ import annotations

import typer

from sluice.cli.output import AsJson, console, errors_told, plain_text, print_json, print_table
from sluice.trust.prompts.catalogue import template_named, templates

prompts = typer.Typer(help="Prompt templates: what `sluice ask --prompt` makes of an answer.", no_args_is_help=True)


@prompts.command("list")
def list_prompts(as_json: AsJson = False) -> None:
    """List the templates: name, version, what each is for."""
    with errors_told(as_json=as_json):
        found = [
            {"name": one.name, "version": one.version, "full_name": one.full_name, "summary": one.summary}
            for one in templates().values()
        ]
        if as_json:
            print_json(found)
        else:
            rows = [(one["full_name"], one["summary"]) for one in found]
            print_table("prompts", ("name", "summary"), rows)


@prompts.command("show")
def show_prompt(name: str, as_json: AsJson = False) -> None:
    """Show a template: its system message and its examples; `{nonce}` is drawn for each prompt."""
    with errors_told(as_json=as_json):
        template = template_named(name, "name")
        if as_json:
            print_json(template)
            return
        console.print(f"[bold]{template.full_name}[/] · {template.summary}", highlight=False)
        messages = [("system", template.system)]
        for example in template.examples:
            messages += [("user", example.question), ("assistant", example.answer)]
        for role, content in messages:
            console.print(f"\n[bold]{role}[/]")
            console.print(plain_text(content), markup=False, highlight=False, soft_wrap=True)
