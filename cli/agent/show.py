"""`sluice show`: the text of a document, with the lines that citations name."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from sluice.cli.connection import connected, wrong
from sluice.cli.output import AsJson, Corpus, console, plain_text, print_json

_LINES = re.compile(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?")


def show(
    document: str,
    corpus: Corpus = "default",
    lines: Annotated[str | None, typer.Option(help="Only these: 12 or 12-30, as a citation names them.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the text of a document, by its id, URL or path, with the lines that citations name."""
    with connected(as_json=as_json) as client:
        start, end = _range_of(lines)
        found = client.document_text(document, corpus, start, end)
        if as_json:
            print_json(found)
            return
        console.print(
            f"{found.url or found.file_path or found.document_id}", markup=False, highlight=False, style="dim"
        )
        width = len(str(found.end_line))
        for number, line in enumerate(found.text.split("\n"), start=found.start_line):
            console.print(f"{number:>{width}}  {plain_text(line)}", markup=False, highlight=False, soft_wrap=True)
        for one in found.left_out or ():
            console.print(f"lines {one.start_line}-{one.end_line} are in quarantine", style="yellow", highlight=False)


def _range_of(lines: str | None) -> tuple[int, int | None]:
    if lines is None:
        return 1, None
    found = _LINES.fullmatch(lines)
    if found is None:
        raise wrong("lines", f"{lines!r} is no line and no range", "such as 12 or 12-30")
    return int(found[1]), int(found[2] or found[1])
