"""Reads Codex's `exec --json`: one JSON object a line, `thread.started`, `turn.*` and `item.*` events.

An item comes when it starts, when it changes and when it is completed, under one id; its last form counts. A command is
wrapped in the user's shell (`bash -lc '…'`), which is taken off. Older versions say `item_type` for `type`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from sluice.memory.extraction.agent_run import (
    PHRASES,
    AgentRun,
    CallStatus,
    ResultEvent,
    ToolUseEvent,
    mapping,
    name_of,
    objects,
    total,
    total_of,
)
from sluice.memory.extraction.shell import known

EVENTS = ("thread.", "turn.", "item.")
_STATUS = {"completed": CallStatus.OK, "failed": CallStatus.FAILED, "declined": CallStatus.DENIED}
_SILENT = ("reasoning", "todo_list", "error")


def read_events(events: Iterable[Mapping[str, Any]]) -> AgentRun:
    """Read the run of a session's events. Each ended turn is a result; the last one tells how the session ended."""
    run = AgentRun("codex")
    usage: list[int | None] = []
    for event in events:
        kind = event.get("type")
        if kind == "thread.started":
            run.session_id = name_of(event.get("thread_id"))
        elif kind == "turn.completed":
            usage.append(total_of(event.get("usage"), "input_tokens", "output_tokens"))
            run.results.append(ResultEvent("success", False, run.said[-1] if run.said else ""))
        elif kind in ("turn.failed", "error"):
            problem = run.clean(mapping(event.get("error")).get("message") or event.get("message"))
            run.rate_limited |= PHRASES["limit"].search(problem) is not None
            if kind == "turn.failed":
                run.results.append(ResultEvent("error", True, errors=(problem,)))
        elif kind in ("item.started", "item.updated", "item.completed"):
            _item(run, mapping(event.get("item")), is_over=kind == "item.completed")
        elif kind != "turn.started":
            run.keep_unknown("unknown_event", event)
    run.tokens = total(usage)
    return run


def _item(run: AgentRun, item: Mapping[str, Any], *, is_over: bool) -> None:
    kind = item.get("type") or item.get("item_type")
    if kind in ("agent_message", "assistant_message"):
        run.say(item.get("text") if is_over else None)
    elif kind == "command_execution":
        _call(
            run, item, "shell", {"command": _unwrapped(run.clean(item.get("command")))}, item.get("aggregated_output")
        )
    elif kind == "file_change":
        verbs = {"add": "Add", "delete": "Delete"}
        changes = ((verbs.get(str(one.get("kind")), "Update"), one.get("path")) for one in objects(item.get("changes")))
        _call(run, item, "apply_patch", {"patch": "\n".join(f"*** {verb} File: {path}" for verb, path in changes)}, "")
    elif kind in ("mcp_tool_call", "web_search"):
        said = item.get("error") or item.get("result") or ""
        _call(run, item, name_of(item.get("tool")) or str(kind), mapping(item.get("arguments")), json.dumps(said))
    elif kind not in _SILENT:
        run.keep_unknown("unknown_block", item)


def _call(run: AgentRun, item: Mapping[str, Any], name: str, given: Mapping[str, Any], output: object) -> None:
    if run.find(item.get("id")) is None:
        run.call(ToolUseEvent(name, given, name_of(item.get("id"))))
    code = item.get("exit_code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    status = CallStatus.FAILED if code else _STATUS.get(str(item.get("status")), CallStatus.UNANSWERED)
    run.answer(item.get("id"), output=run.clean(output), exit_code=code, status=status)


def _unwrapped(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    is_shell = len(words) == 3 and words[0].rpartition("/")[2] in known("shells") and words[1] in ("-lc", "-c")
    return words[2] if is_shell else command
