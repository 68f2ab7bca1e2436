"""Reads SWE-agent's `.traj` (one JSON document, 0.x and 1.x), its history alone, lines of traces, and mini-swe-agent.

An action of SWE-agent is a shell line or a call of the agent's own tools. `open`, `edit`, `create` and similar become
calls of file tools; an `edit` names no file and applies to the open one, which the observation's head names. `state` is
a JSON text in 0.x, an object in 1.x, and gives the agent's folder after the step. Demonstrations in a history are not
the agent's actions and are skipped. Commands have no exit status: a call failed if the editor or the shell says so.

mini-swe-agent has messages, and no steps. Each command runs in a shell of its own, in the same folder. It stands in the
assistant message's `extra.actions`, in its `tool_calls`, or in a block of shell code; the next message of the user or
the tool is its result, with `<returncode>` and `<output>` or the same in `extra`.
"""

from __future__ import annotations

import posixpath
import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sluice.contracts.errors import InvalidInput
from sluice.memory.extraction.agent_run import (
    PHRASES,
    AgentFormat,
    AgentRun,
    CallStatus,
    NotJson,
    ToolUseEvent,
    decode,
    decoded,
    folder_of,
    mapping,
    name_of,
    objects,
    text_of,
    total,
    total_of,
)
from sluice.memory.extraction.shell import known

_FILE_TOOLS = frozenset(("open", "create", "edit", "insert"))
_EDITORS = frozenset(("str_replace_editor", "edit_anthropic"))
_LONGEST_PROMPT = 2_000


def read_trajectory(value: object) -> AgentRun:
    """Read the run of a trajectory, a document with a history, or a list of a history's messages."""
    document = mapping(value)
    info, config = mapping(document.get("info")), mapping(decoded(document.get("replay_config")))
    reader = _Reader("swe-agent")
    steps = document.get("trajectory")
    if isinstance(steps, list) and steps:
        reader.steps(steps)
    else:
        history = value if isinstance(value, list) else document.get("history")
        reader.history(history if isinstance(history, list) else [])
    run = reader.finish()
    run.exit_status = name_of(info.get("exit_status"))
    run.patch = run.clean(info.get("submission")) or run.patch
    run.tokens = total_of(info.get("model_stats"), "tokens_sent", "tokens_received")
    run.model = name_of(mapping(mapping(config.get("agent")).get("model")).get("name"))
    return run


def read_trace(values: Sequence[Any]) -> AgentRun:
    """Read the run of one line of traces: {_id, exit, steps: [{thought, action, observation}]}.

    Raises `InvalidInput` if there are several lines, so several runs, or none.
    """
    runs = [one for value in values for one in ([value] if isinstance(value, dict) else objects(value))]
    if len(runs) != 1:
        raise InvalidInput("data", f"holds {len(runs)} runs", "hand in one line of the traces at a time")
    reader = _Reader("trace")
    steps = runs[0].get("steps")
    reader.steps(steps if isinstance(steps, list) else [])
    run = reader.finish()
    run.exit_status, run.session_id = name_of(runs[0].get("exit")), name_of(runs[0].get("_id"))
    return run


class _Reader:
    def __init__(self, agent: AgentFormat) -> None:
        self.run = AgentRun(agent)
        self.directory: str | None = None
        self.directories: list[str] = []
        self.open_file: str | None = None
        self.seen_files: list[str] = []
        self.latest: str | None = None
        """Latest call whose id was made up here, as its result names none."""

    def steps(self, steps: Iterable[object]) -> None:
        for step in steps:
            fields = mapping(step)
            self.run.say(fields.get("thought"))
            action = fields.get("action")
            if isinstance(action, str) and action.strip():
                self._call(action, None)
                self._answer(text_of(fields.get("observation")), self.latest)
            else:
                self.run.not_kept["step_without_action"] += 1
            self._stand(fields.get("state"))

    def history(self, messages: Iterable[object]) -> None:
        for message in messages:
            fields = mapping(message)
            role = fields.get("role")
            if fields.get("is_demo") or fields.get("message_type") == "demonstration" or role == "system":
                continue
            if role == "assistant":
                self._from_assistant(fields)
            elif role == "tool":
                ids = fields.get("tool_call_ids") or [fields.get("tool_call_id")]
                for call_id in ids if isinstance(ids, list) else []:
                    self._answer(self._before_prompt(fields.get("content")), name_of(call_id) or self.latest)
            elif role == "user":
                observation = self._before_prompt(fields.get("content"))
                if self.latest is not None:
                    self._answer(observation, self.latest)
            else:
                self.run.keep_unknown("unknown_event", message)

    def finish(self) -> AgentRun:
        self.run.root = _root(self.directories, self.seen_files)
        return self.run

    def _from_assistant(self, fields: Mapping[str, Any]) -> None:
        thought = fields.get("thought")
        self.run.say(thought if isinstance(thought, str) and thought.strip() else text_of(fields.get("content")))
        calls = list(objects(fields.get("tool_calls")))
        action = fields.get("action")
        if isinstance(action, str) and action.strip():
            self._call(action, name_of(calls[0].get("id")) if calls else None)
            return
        for call in calls:
            function = mapping(call.get("function"))
            given = function.get("arguments")
            try:
                given = decode(given) if isinstance(given, str) else given
            except NotJson:
                self.run.not_kept["not_json"] += 1
            name = name_of(function.get("name")) or "unknown"
            self.run.call(ToolUseEvent(name, mapping(given), name_of(call.get("id")), working_directory=self.directory))

    def _call(self, action: str, call_id: str | None) -> None:
        name, given = _tool_of(self.run.clean(action))
        self.latest = None if call_id else f"step {self.run.next_number}"
        self.run.call(
            ToolUseEvent(
                name, given, call_id or self.latest, working_directory=self.directory, open_file=self.open_file
            )
        )

    def _answer(self, observation: str, call_id: str | None) -> None:
        output = self.run.clean(observation).replace("\r\n", "\n")
        if head := PHRASES["head_of_file"].search(output):
            self.open_file = head[1]
            self.seen_files.append(head[1])
        self.seen_files.extend(PHRASES["found_in"].findall(output))
        call = self.run.find(call_id)
        if call is None:
            self.run.not_kept["result_without_call"] += 1
            return
        if call.name == "submit" and "diff --git " in output:
            self.run.patch = output
        self.run.answer(
            call_id,
            output=output,
            status=CallStatus.FAILED if _failed(call, output) else CallStatus.OK,
            open_file=self.open_file if call.name in ("edit", "insert") else call.open_file,
        )
        self.latest = None

    def _before_prompt(self, content: object) -> str:
        """Return an observation without the shell prompt at its end; take the folder and the open file from that."""
        text = text_of(content)
        prompt = PHRASES["shell_prompt"].search(text[-_LONGEST_PROMPT:])
        if prompt is None:
            return text
        self._stand({"open_file": prompt[1], "working_dir": prompt[2]})
        return text[: -len(prompt[0])]

    def _stand(self, state: object) -> None:
        """Set the agent's folder and open file after a step."""
        told = mapping(decoded(state))
        directory = folder_of(told.get("working_dir"))
        if directory and directory.startswith("/"):
            self.directory = directory
            self.directories.append(directory)
        opened = told.get("open_file")
        if isinstance(opened, str) and opened not in ("", "n/a"):
            self.open_file = opened


def _tool_of(action: str) -> tuple[str, dict[str, Any]]:
    """Return the tool that an action calls, and its input."""
    first, _, rest = action.strip().partition("\n")
    word, _, arguments = first.partition(" ")
    if word in _FILE_TOOLS or word in _EDITORS:
        words = [*_words(arguments), "", ""]
        if word in _EDITORS:
            return word, {"command": words[0], "path": words[1], "text": f"{arguments}\n{rest}"}
        if word in ("open", "create"):
            return word, {"path": words[0]}
        return word, {"text": f"{arguments}\n{rest}".strip()}
    if word in known("tools_of_swe_agent"):
        return word, {"arguments": f"{arguments}\n{rest}".strip()}
    return "bash", {"command": action.strip()}


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def _failed(call: ToolUseEvent, output: str) -> bool:
    if PHRASES["timed_out"].match(output):
        return True
    if call.name == "bash":
        return PHRASES["shell_failed"].match(output) is not None
    return call.name in _FILE_TOOLS | _EDITORS and PHRASES["editor_refused"].match(output) is not None


def _root(directories: Sequence[str], files: Sequence[str]) -> str | None:
    """Return the top folder (`/owner__name`, `/testbed`) of the working folders, else of the files that were shown.

    Folders of the system do not count. If no other is left, return the common path of the working folders.
    """
    for paths in (directories, [file for file in files if file.startswith("/")]):
        names = (path.split("/")[1] for path in paths if len(path) > 1)
        tops = [name for name in names if name not in known("system_folders")]
        if tops:
            return f"/{tops[0]}"
    return posixpath.commonpath(directories) if directories else None


_END_OF_TIME = 4e9


def read_mini_trajectory(value: object) -> AgentRun:
    """Read the run of a trajectory of mini-swe-agent."""
    document = mapping(value)
    info = mapping(document.get("info"))
    config = mapping(info.get("config"))
    directory = folder_of(mapping(config.get("environment")).get("cwd")) or "."
    run = AgentRun("mini-swe-agent", exit_status=name_of(info.get("exit_status")))
    ended = (run.exit_status or "").casefold()
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
    if pending and ended == "submitted":
        # The command that submits the work ends the run, and has no result of its own.
        run.answer(pending[-1], status=CallStatus.OK, exit_code=0)
    run.rate_limited = "ratelimit" in ended
    run.root = directory if directory.startswith("/") else None
    run.patch = run.clean(info.get("submission"))
    run.tokens = total(tokens)
    run.duration_ms = _duration_ms(objects(document.get("messages")))
    run.model = name_of(mapping(config.get("model")).get("model_name"))
    return run


def _commands(message: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield the commands of a message, each with its call's id, if it has one."""
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
    """Return the first block of shell code: its start, content and end."""
    fence = PHRASES["mini_fence"].search(content)
    end = content.find("\n```", fence.end() - 1) if fence else -1
    if fence is None or end < 0:
        return len(content), "", len(content)
    return fence.start(), content[fence.end() : end], end + len("\n```")


def _command_of(call: Mapping[str, Any]) -> object:
    given = mapping(call.get("function")).get("arguments")
    value = decoded(given)
    return given if value is None else mapping(value).get("command")


def _answer(run: AgentRun, call_id: str, message: Mapping[str, Any]) -> None:
    content, extra = text_of(message.get("content")), mapping(message.get("extra"))
    code = PHRASES["return_code"].search(content)
    exit_code = int(code[1]) if code else extra.get("returncode")
    start, end = content.find("<output>"), content.rfind("</output>")
    told = content[start + len("<output>") : end].strip("\n") if 0 <= start < end else extra.get("raw_output")
    known = isinstance(exit_code, int) and not isinstance(exit_code, bool)
    failed = (known and exit_code != 0) or (not known and PHRASES["mini_timed_out"].search(content[:2_000]))
    run.answer(
        call_id,
        output=run.clean(told if isinstance(told, str) else content),
        exit_code=exit_code if known else None,
        status=CallStatus.FAILED if failed else CallStatus.OK,
    )


def _duration_ms(messages: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the time from first to last message (stamped in seconds since 1970); None if fewer than two have one."""
    times = [mapping(message.get("extra")).get("timestamp") for message in messages]
    known = [time for time in times if isinstance(time, float) and 0 < time < _END_OF_TIME]
    return int((max(known) - min(known)) * 1_000) if len(known) > 1 else None


def _tokens(message: Mapping[str, Any]) -> int | None:
    """Return all tokens of the request that this message answers; each message answers another request."""
    usage = mapping(mapping(message.get("extra")).get("response")).get("usage")
    all_of_them = total_of(usage, "total_tokens")
    return total_of(usage, "prompt_tokens", "completion_tokens") if all_of_them is None else all_of_them
