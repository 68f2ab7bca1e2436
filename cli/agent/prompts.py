"""`sluice prompts`: the templates by which an answer becomes messages for a language model."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.output import AsJson, console, errors_told, plain_text, print_json, print_table


def prompts(
    name: Annotated[str | None, typer.Argument(help="Show this one: its system message and its examples.")] = None,
    as_json: AsJson = False,
) -> None:
    """Prompt templates: what `sluice ask --prompt` makes of an answer."""
    with errors_told(as_json=as_json):
        from sluice.trust.prompts.catalogue import template_named, templates

        if name is None:
            found = [one.model_dump(include={"name", "version", "summary"}) for one in templates().values()]
            found = [{**one, "full_name": full_name} for one, full_name in zip(found, templates(), strict=True)]
            if as_json:
                print_json(found)
            else:
                print_table("prompts", ("name", "summary"), [(one["full_name"], one["summary"]) for one in found])
            return
        template = template_named(name, "name")
        if as_json:
            print_json(template)
            return
        console.print(f"[bold]{template.full_name}[/] · {template.summary}", highlight=False)
        messages = [("system", template.system)]
        for example in template.examples:
            messages += [("user", example.question), ("assistant", example.answer)]
        for role, content in messages:  # `{nonce}` is drawn for each prompt
            console.print(f"\n[bold]{role}[/]")
            console.print(plain_text(content), markup=False, highlight=False, soft_wrap=True)
