"""Reads Claude Code's `-p --output-format stream-json --verbose`: one JSON object a line, distinguished by `type`.

Several `assistant` lines share a message's id and repeat its usage, so tokens come from the `result` lines. Without
one, the last usage of each message is taken, and the sum is an estimate. All four kinds of tokens count: input, output,
and read from or written to the cache. Events with `parent_tool_use_id` are a sub-agent's: its tool calls count, its
words do not. The last line may be torn; a buffered stream reports its losses in a `sluice_overflow` line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sluice.contracts.errors import InvalidInput
from sluice.memory.extraction.agent_run import (
    PHRASES,
    AgentRun,
    CallStatus,
    ResultEvent,
    ToolUseEvent,
    count_of,
    decode_lines,
    folder_of,
    mapping,
    name_of,
    objects,
    text_of,
    total,
    total_of,
)

OVERFLOW = "sluice_overflow"
TYPES = frozenset(("system", "assistant", "user", "result", "stream_event", "rate_limit_event", "conversation_reset"))
_TRANSCRIPT_TYPES = frozenset(("summary", "file-history-snapshot", "queue-operation", "progress", "attachment"))
"""Types of lines in Claude Code's session files, which are read as well. They have no result line: a session that
closes with a text of the agent ended as a stream with a `success` does."""
_MODEL_USAGE = ("inputTokens", "outputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
_USAGE = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def read_text(text: str) -> AgentRun:
    """Read the run of a stream. Counts lines that are not JSON objects, also a torn last one.

    Raises `InvalidInput` if there are lines, and none of them is a JSON object.
    """
    values, counted = decode_lines(text)
    read = values + [None] * counted.total()
    events = [one for value in values for one in objects(value if isinstance(value, list) else [value])]
    counted["not_json"] += sum(not isinstance(value, dict | list) for value in values)
    if read and not events:
        raise InvalidInput(
            "data",
            f"none of its {len(read)} lines is a JSON object",
            "run claude with -p --output-format stream-json --verbose",
        )
    return read_events(events, counted)


def read_events(events: Iterable[Mapping[str, Any]], counted: Mapping[str, int] | None = None) -> AgentRun:
    """Read the run of a stream's events. `counted` has the counts of lines that are no event."""
    reader = _Reader()
    reader.run.not_kept.update(counted or {})
    for event in events:
        reader.read(event)
    return reader.finish()


class _Reader:
    def __init__(self) -> None:
        self.run = AgentRun("claude-code")
        self.seen_results: set[str] = set()
        self.usage: dict[str, int] = {}
        self.is_session_file = False
        self.closed_in_error: bool | None = None
        """Whether the agent's last text reports an error of the API; None while it is at work."""

    def read(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type")
        run = self.run
        run.session_id = run.session_id or name_of(event.get("session_id")) or name_of(event.get("sessionId"))
        run.root = run.root or folder_of(event.get("cwd"))
        self.is_session_file |= "parentUuid" in event
        if kind == "assistant":
            self._assistant(event)
        elif kind == "user":
            self._user(event)
        elif kind == "result":
            self._result(event)
        elif kind == "system":
            if event.get("subtype") == "init":
                self.run.model = name_of(event.get("model")) or self.run.model
        elif kind == "rate_limit_event":
            self.run.rate_limited |= mapping(event.get("rate_limit_info")).get("status") == "rejected"
        elif kind == OVERFLOW:
            self._overflow(event)
        elif not isinstance(kind, str) or kind not in TYPES | _TRANSCRIPT_TYPES:
            self.run.keep_unknown("unknown_event", event)

    def _assistant(self, event: Mapping[str, Any]) -> None:
        message = mapping(event.get("message"))
        sub_agent = bool(event.get("parent_tool_use_id")) or event.get("isSidechain") is True
        self.run.rate_limited |= event.get("error") == "rate_limit"
        if not sub_agent and message.get("model") != "<synthetic>":
            self.run.model = self.run.model or name_of(message.get("model"))
        if (usage := total_of(message.get("usage"), *_USAGE)) is not None:
            self.usage[str(message.get("id") or event.get("uuid") or len(self.usage))] = usage
        content = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else objects(content):
            self._block(block, sub_agent)
            if not sub_agent:
                failed = event.get("isApiErrorMessage") is True
                self.run.rate_limited |= failed and PHRASES["limit"].search(text_of(block)[:1_000]) is not None
                self.closed_in_error = failed if block.get("type") == "text" else None

    def _block(self, block: Mapping[str, Any], sub_agent: bool) -> None:
        kind = block.get("type")
        if kind == "text":
            if sub_agent:
                self.run.not_kept["sub_agent_text"] += 1
            else:
                self.run.say(block.get("text"))
        elif kind in ("tool_use", "server_tool_use"):
            self.run.call(
                ToolUseEvent(
                    name=name_of(block.get("name")) or "unknown",
                    input=mapping(block.get("input")),
                    id=name_of(block.get("id")),
                    sub_agent=sub_agent,
                )
            )
        elif isinstance(kind, str) and kind.endswith("_tool_result") and self.run.find(block.get("tool_use_id")):
            self._tool_result(block, {})
        elif kind not in ("thinking", "redacted_thinking"):
            self.run.keep_unknown("unknown_block", block)

    def _user(self, event: Mapping[str, Any]) -> None:
        content = mapping(event.get("message")).get("content")
        self.closed_in_error = None
        if isinstance(content, str):
            self._notification(content)
        for block in objects(content):
            if block.get("type") == "tool_result":
                self._tool_result(block, mapping(event.get("tool_use_result") or event.get("toolUseResult")))
            elif block.get("type") not in ("text", "image", "document"):
                self.run.keep_unknown("unknown_block", block)

    def _notification(self, text: str) -> None:
        """Record the end of a background command, whose call was answered when it began."""
        told = PHRASES["notification"].search(text[:4_000])
        call = self.run.find(told[1]) if told else None
        if call is None or call.status is not CallStatus.OK:
            return
        code = PHRASES["notified_exit_code"].search(text[:4_000])
        exit_code = int(code[1]) if code else None
        failed = bool(exit_code) or "<status>failed</status>" in text
        if failed or exit_code == 0:
            summary = self.run.clean(text).partition("<summary>")[2].partition("</summary>")[0]
            status = CallStatus.FAILED if failed else CallStatus.OK
            self.run.answer(call.id, status=status, exit_code=exit_code, output=summary)

    def _tool_result(self, block: Mapping[str, Any], detail: Mapping[str, Any]) -> None:
        output = self.run.clean(text_of(block.get("content")))
        is_error = block.get("is_error") is True
        exit_code = (
            PHRASES["exit_code"].match(output) if is_error else PHRASES["background_exit_code"].search(output[:500])
        )
        if is_error and PHRASES["denied"].search(output[:1_000]):
            status = CallStatus.DENIED
        elif detail.get("interrupted") is True or (is_error and PHRASES["interrupted"].search(output[:1_000])):
            status = CallStatus.INTERRUPTED
        else:
            status = CallStatus.FAILED if is_error else CallStatus.OK
        self.run.answer(
            block.get("tool_use_id"),
            output=output,
            status=status,
            exit_code=int(exit_code[1])
            if exit_code
            else None
            if is_error or PHRASES["background"].match(output)
            else 0,
        )

    def _result(self, event: Mapping[str, Any]) -> None:
        uuid = event.get("uuid")
        if isinstance(uuid, str):
            if uuid in self.seen_results:
                self.run.not_kept["repeated_event"] += 1
                return
            self.seen_results.add(uuid)
        is_error = bool(event.get("is_error"))
        result = self.run.clean(event.get("result")).strip()
        self.run.rate_limited |= event.get("api_error_status") == 429 or bool(
            is_error and PHRASES["limit"].search(result[:1_000])
        )
        errors = event.get("errors")
        tokens = total_of(event.get("usage"), *_USAGE)
        if tokens is None:  # the result has no usage of its own: the sum over models
            tokens = total(total_of(one, *_MODEL_USAGE) for one in mapping(event.get("modelUsage")).values())
        self.run.results.append(
            ResultEvent(
                subtype=name_of(event.get("subtype")) or "",
                is_error=is_error,
                result=result,
                duration_ms=count_of(event.get("duration_ms")),
                tokens=tokens,
                terminal_reason=name_of(event.get("terminal_reason")) or "",
                errors=tuple(self.run.clean(one) for one in errors if one) if isinstance(errors, list) else (),
                background=bool(event.get("origin")),
            )
        )
        for denial in objects(event.get("permission_denials")):
            call_id = denial.get("tool_use_id")
            call = self.run.find(call_id)
            if call and call.status in (CallStatus.FAILED, CallStatus.UNANSWERED):
                self.run.answer(call_id, status=CallStatus.DENIED)

    def _overflow(self, event: Mapping[str, Any]) -> None:
        for name in ("events", "bytes", "long_lines"):
            if count := count_of(event.get(name)):
                self.run.not_kept[f"overflow_{name}"] += count

    def finish(self) -> AgentRun:
        run = self.run
        if self.is_session_file and self.closed_in_error is not None and run.said and not run.results:
            run.results.append(ResultEvent("success", self.closed_in_error, run.said[-1]))
        told = total(result.tokens for result in run.results)
        run.tokens = total(self.usage.values()) if told is None else told
        run.tokens_estimated = told is None and bool(self.usage)
        run.duration_ms = total(result.duration_ms for result in run.results)
        return run
