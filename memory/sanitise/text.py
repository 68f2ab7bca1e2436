"""Applies memory's rules to one text, alone or combined with a mask.

Hidden characters are removed first, then the marks that divide a prompt (roles, fences, calls of tools), then commands
to the reader. Harmful advice stays, and is marked.

A lone mark is one that a text mentions ("the template emits `<|im_end|>` twice"): its name stays, without its
delimiters. A whole call, or a marker that opens somebody's turn, is a command, and goes with its content.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluice.memory.block_marks import cut_blocks, remove_marks
from sluice.memory.ports import MaskPrivate, Sanitise, Sanitised
from sluice.memory.sanitise.harm import looks_harmful
from sluice.text.commands import find_commands
from sluice.text.hidden import (
    BLACK_FLAG,
    CONTROL,
    DIRECTION,
    FLAG_TAGS,
    JOINERS,
    LINE_ENDS,
    NO_WIDTH,
    SELECTORS_IN_A_ROW,
    SURROGATES,
    TAGS,
)
from sluice.text.pattern_file import PatternFile
from sluice.text.readings import decoded, normalise
from sluice.text.role_marks import marks_of_turns

_PATTERNS = PatternFile(Path(__file__).with_name("markup.toml"))


def take_out_markup(text: str, cut: Counter[str]) -> str:
    """Return `text` without calls of tools, role markers and fences; `cut` counts them by rule."""
    if "<" in text or "[" in text:
        text = replace_all(_PATTERNS["whole_call"], text, cut, "tool-call", "")
        text = replace_all(_PATTERNS["whole_turn"], text, cut, "role-marker", "")
        text = replace_all(_PATTERNS["turn"], text, cut, "role-marker", " ")
        text = _only_named(_PATTERNS["tool_tag"], text, cut, "mark.tool")
        text = _only_named(_PATTERNS["token"], text, cut, "mark.role")
        text = replace_all(marks_of_turns(), text, cut, "mark.role", "")
    if "{" in text and _PATTERNS["call_keys"].search(text):
        text = _without_json_calls(text, cut)
    text = replace_all(_PATTERNS["lone_speaker"], text, cut, "role-marker", "")
    if ":" in text:
        text = _PATTERNS["heading"].sub(
            lambda found: _noted(cut, "mark.role", f"{found[1]}{found[2] or ''}{found[3]} -"), text
        )
        text = _PATTERNS["speaker"].sub(
            lambda found: _noted(cut, "mark.role", f"{found[1]}{found[2]}{found[3]} -"), text
        )
    if "```" in text or "~~~" in text:
        text = replace_all(_PATTERNS["fence"], text, cut, "mark.fence", " ")
    return text


def replace_all(pattern: re.Pattern[str], text: str, cut: Counter[str], rule: str, by: str) -> str:
    """Return `text` with each match replaced by `by`; `cut` counts them."""
    text, found = pattern.subn(by, text)
    if found:
        cut[rule] += found
    return text


def _only_named(pattern: re.Pattern[str], text: str, cut: Counter[str], rule: str) -> str:
    """Remove each mark, but keep the name of one in a code span, which the text mentions."""

    def instead(found: re.Match[str]) -> str:
        is_spoken_of = text[: found.start()].count("`") % 2 == 1
        return _noted(cut, rule, next(filter(None, found.groups()), "") if is_spoken_of else "")

    return pattern.sub(instead, text)


def _noted(cut: Counter[str], rule: str, by: str) -> str:
    cut[rule] += 1
    return by


def _without_json_calls(text: str, cut: Counter[str]) -> str:
    """Remove JSON objects that call a tool, in the forms of Anthropic, OpenAI, MCP and agents' own protocols."""
    decoder = json.JSONDecoder(strict=False)
    kept: list[str] = []
    at = 0
    while (start := text.find("{", at)) >= 0:
        kept.append(text[at:start])
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value, end = None, start + 1
        if is_call(value):
            cut["tool-call"] += 1
        else:
            kept.append(text[start:end])
        at = end
    return "".join([*kept, text[at:]])


def is_call(value: Any) -> bool:
    """Return whether a JSON object calls a tool."""
    if not isinstance(value, dict):
        return False
    if (
        value.get("type") in ("tool_use", "function_call", "server_tool_use", "function")
        or value.get("method") == "tools/call"
    ):
        return True
    if any(key in value for key in ("function_call", "tool_calls", "tool_use", "tool_call", "tool_uses")):
        return True
    named = isinstance(value.get("name", value.get("tool", value.get("tool_name", value.get("recipient_name")))), str)
    return named and any(
        isinstance(value.get(key), (dict, str)) for key in ("arguments", "parameters", "input", "args")
    )


_WORD = re.compile(r"\w")


def sanitize_learning_text(text: str) -> Sanitised:
    """Return `text` without hidden characters, role markers, fences, tool calls and commands to a model.

    A command goes with its whole sentence. `blocked`: nothing is left, or a command was hidden.
    """
    cut: Counter[str] = Counter()
    kept, blocked = _without_commands(text, cut)
    kept = take_out_markup(_without_blocks(_make_visible(kept, cut), cut), cut)
    if cut and not blocked:  # what was taken out may have parted a command
        kept, blocked = _without_commands(kept, cut)
    plain = normalise(kept).text
    is_harmful = looks_harmful(plain)
    within = None if is_harmful else decoded(kept)
    if within and any(one.kind == "encoded" for one in within.disguises) and looks_harmful(within.lowered().text):
        cut["hidden.encoded"] += 1
        blocked = True
    if blocked:
        return Sanitised("", dict(cut), blocked=True)
    kept = tidy(kept) if cut else kept.strip()
    return Sanitised(kept, dict(cut), blocked=bool(cut) and not _WORD.search(kept), is_harmful=is_harmful)


_MARKS = frozenset(("role-mark.token", "tool-call.markup"))
"""Rules for marks alone: `take_out_markup` tells one that is mentioned from one that opens a turn."""


def _without_commands(text: str, cut: Counter[str]) -> tuple[str, bool]:
    """Return `text` without the sentences that command a model, and whether one was hidden."""
    found = [one for one in find_commands(text) if one.rule not in _MARKS]
    cut.update(one.rule for one in found)
    return cut_sentences(text, [(one.start, one.end) for one in found]), any(
        one.rule.startswith("hidden.") for one in found
    )


_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Colours and other commands to a terminal (ECMA-48)."""
_CONTROLS = re.compile(f"[{CONTROL}\x0c\r]")
_UNSEEN = (
    ("hidden.characters", re.compile(f"(?<![{TAGS}])(?:(?<!{BLACK_FLAG})|(?!{FLAG_TAGS}(?![{TAGS}])))[{TAGS}]+")),
    ("hidden.characters", SELECTORS_IN_A_ROW),
    ("hidden.characters", re.compile("[\u202d\u202e]")),
    ("mark.direction", re.compile(f"[{DIRECTION}]")),
    ("mark.invisible", re.compile(f"[{NO_WIDTH}]")),
    ("mark.invisible", re.compile(f"[{JOINERS}]{{2,}}|(?<![^\x00-\x7f])[{JOINERS}](?![^\x00-\x7f])")),
)
"""`hidden.…` have no use but to hide a text or to turn it around. Persian, Indic scripts and emoji need joiners."""
_SURROGATES = re.compile(f"[{SURROGATES}]")


def _make_visible(text: str, cut: Counter[str]) -> str:
    """Return `text` with line feeds alone as line ends, without control, direction and invisible characters."""
    if text.isascii() and not _CONTROLS.search(text):
        return text
    text = LINE_ENDS.sub("\n", replace_all(_TERMINAL, text, cut, "mark.control", ""))
    text = replace_all(_CONTROLS, text, cut, "mark.control", "")
    for rule, pattern in _UNSEEN if not text.isascii() else ():
        text = replace_all(pattern, text, cut, rule, "")
    return _SURROGATES.sub("\ufffd", text)


def _without_blocks(text: str, cut: Counter[str]) -> str:
    """Remove blocks that memory printed into a prompt, and marks that could end such a block."""
    text, blocks = cut_blocks(text)
    text, marks = remove_marks(text)
    if blocks + marks:
        cut["mark.prompt-block"] += blocks + marks
    return text


_END = re.compile(r"[.!?。！？;](?=[\s\"'`)\]]|$)[\"'`)\]]*\s*|\n+")
_BLANKS = re.compile(r"[ \t]{2,}")
_LINES = re.compile(r"[ \t]*\n\s*")


def sentences(text: str) -> list[tuple[int, int]]:
    """Return start and end of each sentence or line, in order; a full stop within a file's name ends none."""
    ends = [*(found.end() for found in _END.finditer(text)), len(text)]
    return [(start, end) for start, end in zip([0, *ends], ends, strict=False) if start < end]


def cut_sentences(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return `text` without every sentence that one of the spans touches."""
    spans = list(spans)
    if not spans:
        return text
    return "".join(
        text[start:end]
        for start, end in sentences(text)
        if not any(start < last and first < end for first, last in spans)
    )


def tidy(text: str) -> str:
    """Return `text` without blanks at its ends, several in a row, or blank lines."""
    return _LINES.sub("\n", _BLANKS.sub(" ", text)).strip()


def build_sanitise(mask: MaskPrivate) -> Sanitise:
    """Build a `Sanitise` from memory's own rules and `mask`."""

    def sanitise(text: str) -> Sanitised:
        own = sanitize_learning_text(text)
        kept, masked = mask(own.text)
        cut = {**own.cut, **{f"private.{kind}": count for kind, count in masked.items()}}
        return replace(own, text=tidy(kept) if cut else kept, cut=cut)

    return sanitise
