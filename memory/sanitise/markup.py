"""Removes the marks that divide a prompt from texts of memory: roles, fences, calls of tools.

A lone mark is one that a text mentions ("the template emits `<|im_end|>` twice"): its name stays, without its
delimiters. A whole call, or a marker that opens somebody's turn, is a command, and goes with its content.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from sluice.text.pattern_file import PatternFile
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
