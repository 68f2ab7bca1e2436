"""mini-swe-agent's `.traj.json`: messages, and no steps. Each command runs in a shell of its own, in the same folder.

A command stands in the assistant message's `extra.actions`, in its `tool_calls`, or in a block of shell code; what
follows from the user or the tool is its result, with `<returncode>` and `<output>` or the same in `extra`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sluice.memory.extraction.agent_run import (
    AgentRun,
    CallStatus,
    RunBuilder,
    ToolUseEvent,
    folder_of,
    mapping,
    name_of,
    objects,
    text_of,
    total,
    total_of,
)
from sluice.memory.extraction.json_text import decoded

_FENCE = re.compile(r"```(?:mswea_bash_command|bash|sh)[ \t]*\n")
_RETURN_CODE = re.compile(r"<returncode>\s*(-?\d{1,6})\s*</returncode>")
_END_OF_TIME = 4e9
_TIMED_OUT = re.compile(r"\btimed out\b.{0,100}\bkilled\b|\bTimeoutExpired\b", re.DOTALL)


def read_trajectory(value: object) -> AgentRun:
    """The run of a trajectory."""
    document = mapping(value)
    info = mapping(document.get("info"))
    config = mapping(info.get("config"))
    directory = folder_of(mapping(config.get("environment")).get("cwd")) or "."
    exit_status = name_of(info.get("exit_status"))
    run = RunBuilder()
    tokens: list[int | None] = []
    pending: deque[str] = deque()
    for message in objects(document.get("messages")):
        role = message.get("role")
        if role == "assistant":
            content = text_of(message.get("content"))
            start, _, end = _block(content)
            run.say((content[:start] + content[end:]).strip().removeprefix("THOUGHT:"))
            tokens.append(_tokens(message))
            for command, given_id in _commands(message):
                call_id = given_id or f"command {run.next_number}"
                pending.append(call_id)
                run.call(ToolUseEvent("bash", {"command": run.clean(command)}, call_id, working_directory=directory))
        elif role in ("user", "tool") and pending:
            answered = name_of(message.get("tool_call_id"))
            call_id = answered if answered is not None and answered in pending else pending[0]
            pending.remove(call_id)
            _answer(run, call_id, message)
    if pending and (exit_status or "").casefold() == "submitted":
        # The command that hands the work in ends the run, and has no result of its own.
        run.answer(pending[-1], status=CallStatus.OK, exit_code=0)
    return run.build(
        "mini-swe-agent",
        exit_status=exit_status,
        rate_limited="ratelimit" in (exit_status or "").casefold(),
        root=directory if directory.startswith("/") else None,
        patch=run.clean(info.get("submission")),
        tokens=total(tokens),
        duration_ms=_duration_ms(objects(document.get("messages"))),
        model=name_of(mapping(config.get("model")).get("model_name")),
    )


def _commands(message: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The commands of a message, each with the id of its call, where it has one."""
    actions = objects(mapping(message.get("extra")).get("actions"))
    found: list[tuple[object, object]] = [(one.get("command"), one.get("tool_call_id")) for one in actions]
    if not found:
        found = [(_command_of(call), call.get("id")) for call in objects(message.get("tool_calls"))]
    if not found:
        found = [(_block(text_of(message.get("content")))[1], None)]
    yield from (
        (command, name_of(call_id)) for command, call_id in found if isinstance(command, str) and command.strip()
    )


def _block(content: str) -> tuple[int, str, int]:
    """The first block of shell code: where it starts, what it holds, where it ends."""
    fence = _FENCE.search(content)
    end = content.find("\n```", fence.end() - 1) if fence else -1
    if fence is None or end < 0:
        return len(content), "", len(content)
    return fence.start(), content[fence.end() : end], end + len("\n```")


def _command_of(call: Mapping[str, Any]) -> object:
    given = mapping(call.get("function")).get("arguments")
    value = decoded(given)
    return given if value is None else mapping(value).get("command")


def _answer(run: RunBuilder, call_id: str, message: Mapping[str, Any]) -> None:
    content, extra = text_of(message.get("content")), mapping(message.get("extra"))
    code = _RETURN_CODE.search(content)
    exit_code = int(code[1]) if code else extra.get("returncode")
    start, end = content.find("<output>"), content.rfind("</output>")
    told = content[start + len("<output>") : end].strip("\n") if 0 <= start < end else extra.get("raw_output")
    known = isinstance(exit_code, int) and not isinstance(exit_code, bool)
    failed = (known and exit_code != 0) or (not known and _TIMED_OUT.search(content[:2_000]))
    run.answer(
        call_id,
        output=run.clean(told if isinstance(told, str) else content),
        exit_code=exit_code if known else None,
        status=CallStatus.FAILED if failed else CallStatus.OK,
    )


def _duration_ms(messages: Iterable[Mapping[str, Any]]) -> int | None:
    """From the first message's time to the last one's (seconds since 1970); None where fewer than two have one."""
    times = [mapping(message.get("extra")).get("timestamp") for message in messages]
    known = [time for time in times if isinstance(time, float) and 0 < time < _END_OF_TIME]
    return int((max(known) - min(known)) * 1_000) if len(known) > 1 else None


def _tokens(message: Mapping[str, Any]) -> int | None:
    """All tokens of the request that this message answers; each is another request."""
    usage = mapping(mapping(message.get("extra")).get("response")).get("usage")
    all_of_them = total_of(usage, "total_tokens")
    return total_of(usage, "prompt_tokens", "completion_tokens") if all_of_them is None else all_of_them
