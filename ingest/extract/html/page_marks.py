"""Marks that a page prints beside its text: the numbers of lines of code, the sign of a link to a heading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sluice.ingest.extract.html.nodes import Nodes

_LINE_NUMBERS = re.compile(r"(?:^|[\s_-])(?:linenos?|linenumbers?|line-?numbers?|gutter)(?=$|[\s_-])", re.IGNORECASE)
"""In a class or an id, of what stands within code."""
_GUTTER = re.compile(rf"{_LINE_NUMBERS.pattern}|(?:^|[\s_-])lines(?=$|[\s_-])", re.IGNORECASE)
"""The same of a cell or a block beside the code."""
_NAME_CHARS = 300
_PERMALINK = re.compile(r"\s*[¶§🔗#]\s*")
_MOST_PARTS = 8
"""Entries in a permalink: its sign, and what shapes that."""
_CODE = frozenset(("pre", "code", "samp", "kbd", "xmp", "listing"))


def without_page_marks(nodes: Nodes, visible: Sequence[int]) -> list[int]:
    """The entries `visible` but for permalinks and the numbers of lines, with the cells that hold nothing else."""
    kept: list[int] = []
    code_to = skipped_to = 0
    for node in visible:
        if node < skipped_to:
            continue
        tag, attributes = nodes.tags[node], nodes.attributes[node]
        numbers = _LINE_NUMBERS if node < code_to else _GUTTER if tag in ("td", "pre") else None
        if tag == "a" and _is_permalink(nodes, node):
            skipped_to = nodes.ends[node]
            continue
        if attributes and numbers and _is_named(attributes, numbers) and _is_numbers(nodes, node):
            skipped_to = nodes.ends[node]
            continue
        if tag in _CODE:
            code_to = max(code_to, nodes.ends[node])
        kept.append(node)
    return kept


def _is_named(attributes: Mapping[str, str], pattern: re.Pattern[str]) -> bool:
    return any(pattern.search((attributes.get(name) or "")[:_NAME_CHARS]) for name in ("class", "id"))


def _is_numbers(nodes: Nodes, node: int) -> bool:
    """Whether all in `node` are figures: highlighters give the block of code itself the name `line-numbers` too."""
    return all(word.strip(".:|").isdigit() for word in nodes.text(node).split())


def _is_permalink(nodes: Nodes, node: int) -> bool:
    is_short = nodes.ends[node] - node < _MOST_PARTS
    return is_short and _PERMALINK.fullmatch(nodes.text(node)) is not None
