"""Extracts Markdown from Jupyter notebooks (nbformat 4): text as it shows, code in fences, printed output as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract.extracted import Extracted
from sluice.ingest.extract.markdown_input import extract_markdown
from sluice.ingest.extract.media_types import NOTEBOOK

_TICKS = re.compile(r"`{3,}")
_MOST_OUTPUT_CHARS = 2_000
"""Characters that are kept of each output: a log of a long training says little."""


def extract_notebook(text: str) -> Extracted:
    """Return the cells in their order. Raises InvalidInput if `text` is no notebook of version 4."""
    try:
        notebook = json.loads(text)
        language = str(notebook.get("metadata", {}).get("kernelspec", {}).get("language", "python"))
        markdown = "\n\n".join(part for cell in notebook["cells"] for part in _shown(cell, language))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInput(
            "body", f"no notebook of nbformat 4: {error!r}"[:300], "convert it with `jupyter nbconvert`"
        ) from error
    read = extract_markdown(markdown)
    return Extracted(read.text, NOTEBOOK, "markdown", title=read.title, linked_words=read.linked_words)


def _shown(cell: Any, language: str) -> Iterator[str]:
    source = _joined(cell.get("source"))
    if cell.get("cell_type") != "code":
        yield source
        return
    yield _fenced(source, language)
    for output in cell.get("outputs", ()):
        printed = _joined(output.get("text")) or _joined(output.get("data", {}).get("text/plain"))
        if printed.strip():
            yield _fenced(printed[:_MOST_OUTPUT_CHARS], "")


def _fenced(source: str, language: str) -> str:
    ticks = max(("``", *_TICKS.findall(source)), key=len) + "`"
    return f"{ticks}{language}\n{source.rstrip()}\n{ticks}"


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(map(str, source or ()))
