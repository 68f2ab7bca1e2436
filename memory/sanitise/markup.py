"""Marks by which a prompt is divided: roles, fences, calls of tools. None of them survives in a text of memory.

A mark alone is a mark that a text speaks of ("the template emits `<|im_end|>` twice"): its name stays, without what
makes it a mark. A whole call, or a marker that opens a turn of somebody, is a command, and goes with its content.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

_TOOLS = r"(?:tool_use|tool_call|tool_calls|tool_result|tool_response|function_call|function_calls|function_results?|invoke|parameter|use_mcp_tool|mcp_tool|execute_command|antml:[a-z_]+)"
_WHOLE_CALL = re.compile(
    rf"(?<!`)<\s*({_TOOLS})\b[^<>]{{0,300}}>(?:(?!<\s*/\s*\1\b).){{1,8000}}?(?:<\s*/\s*\1\s*>|\Z)|<\|python_tag\|>[^\n]*",
    re.IGNORECASE | re.DOTALL,
)
_TOOL_TAG = re.compile(rf"<\s*/?\s*({_TOOLS})\b[^<>]{{0,300}}?/?\s*>", re.IGNORECASE)
_CALL_KEYS = re.compile(
    r"[\"'](?:tool|args|tool_use|function_call|tool_calls?|tool_name|tools/call|function|arguments|parameters|input|recipient_name)[\"']"
)

_ROLES = r"(?:system|assistant|user|human|developer|tool|function|model|ai|ipython)"
_WHOLE_TURN = re.compile(
    r"(?<!`)<(system|system[-_](?:reminder|prompt|message|instructions?)|assistant|developer)>[^<]{1,4000}<\s*/\s*\1\s*>",
    re.IGNORECASE,
)
_TURN = re.compile(
    rf"(?<!`)<\|(?:im_start|start_header_id|start|begin_of_turn)\|>\s*{_ROLES}\b(?:<\|(?:end_header_id|im_sep|message)\|>)?|<(?:start_of_turn|turn)>\s*{_ROLES}\b"
    rf"|<\|(?:system|assistant|developer)\|>(?!`)|<<\s*sys\s*>>(?!`)(?=.*\S)|(?:(?:^|\n)[ \t]*\[inst\](?=\s*\S)|\[inst\](?=[^`]*\[/inst\]))"
    r"|(?<!`)<(?:system|system[-_]reminder|system[-_](?:prompt|message|instructions?)|assistant|instructions?|important)>(?!`)(?=[^<]{3})",
    re.IGNORECASE,
)  # fmt: skip
_TOKEN = re.compile(
    r"<\|\s*([a-z_]{2,30})\s*\|>|\[\s*/?\s*(inst)\s*\]|<<\s*/?\s*(sys)\s*>>|<(?:(?:start|end)_of_turn)>|</?s>(?=\s|$)"
    r"|<\s*/?\s*(system|system[-_]reminder|system[-_](?:prompt|message|instructions?)|assistant|human|developer|instructions?)\s*>",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"(?m)^([ \t>*_|-]*)#{1,6}[ \t]*(new[ \t]+)?((?:system|assistant|user|human|developer)(?:[ \t]+(?:prompt|message|instructions?))?|instructions?|response|input)[ \t]*:",
    re.IGNORECASE,
)
_SPEAKER = re.compile(
    r"(?m)((?:^|(?<=[.!?;]\s))[ \t>*_|#\"'(\[-]*)(system|assistant|human|developer|user|ai)((?:[ \t]+(?:prompt|message|note|override|instructions?))?)(\*{0,2}[ \t]*\]?[ \t]*:)(?!//|:)",
    re.IGNORECASE,
)
_LONE_SPEAKER = re.compile(r"(?:\A|\n)[ \t]*(?:system|assistant|human|developer)[ \t]*\n\s*(?=\S)", re.IGNORECASE)
"""A role alone on its line, as chat templates print it."""
_FENCE = re.compile(r"(?:`{3,}|~{3,})[ \t]*(?:(?:bash|sh|shell|console|zsh|powershell|cmd|bat|python|py|json|xml|text|diff|js|ts|yaml|toml|sql|system)\b)?[ \t]*")  # fmt: skip


def take_out_markup(text: str, cut: Counter[str]) -> str:
    """`text` without calls of tools, role markers and fences; `cut` counts them by rule."""
    if "<" in text or "[" in text:
        text = _replace(_WHOLE_CALL, text, cut, "tool-call", "")
        text = _replace(_WHOLE_TURN, text, cut, "role-marker", "")
        text = _replace(_TURN, text, cut, "role-marker", " ")
        text = _only_named(_TOOL_TAG, text, cut, "mark.tool")
        text = _only_named(_TOKEN, text, cut, "mark.role")
    if "{" in text and _CALL_KEYS.search(text):
        text = _without_json_calls(text, cut)
    text = _replace(_LONE_SPEAKER, text, cut, "role-marker", "")
    if ":" in text:
        text = _HEADING.sub(lambda found: _noted(cut, "mark.role", f"{found[1]}{found[2] or ''}{found[3]} -"), text)
        text = _SPEAKER.sub(lambda found: _noted(cut, "mark.role", f"{found[1]}{found[2]}{found[3]} -"), text)
    if "```" in text or "~~~" in text:
        text = _replace(_FENCE, text, cut, "mark.fence", " ")
    return text


def _replace(pattern: re.Pattern[str], text: str, cut: Counter[str], rule: str, by: str) -> str:
    text, found = pattern.subn(by, text)
    if found:
        cut[rule] += found
    return text


def _only_named(pattern: re.Pattern[str], text: str, cut: Counter[str], rule: str) -> str:
    """Each mark goes; of one that stands in a code span its name stays, as the text speaks of it."""

    def instead(found: re.Match[str]) -> str:
        is_spoken_of = text[: found.start()].count("`") % 2 == 1
        return _noted(cut, rule, next(filter(None, found.groups()), "") if is_spoken_of else "")

    return pattern.sub(instead, text)


def _noted(cut: Counter[str], rule: str, by: str) -> str:
    cut[rule] += 1
    return by


def _without_json_calls(text: str, cut: Counter[str]) -> str:
    """Objects of JSON that call a tool, in the forms of Anthropic, OpenAI, MCP and agents' own protocols."""
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
    """Whether a JSON object calls a tool."""
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
