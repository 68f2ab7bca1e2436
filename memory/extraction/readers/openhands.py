"""Reads OpenHands' events: V0 (`action` or `observation`, a list or one file per event) and V1 (marked by `kind`).

V0: an observation answers the action that its `cause` names; a command's exit code of -1 means unknown.
V1: events form a tree by `parent_id`, as a conversation can be taken back to an earlier point. Messages count on the
branch of `leaf_event_id`, else of the last event; tool calls count on all. `base_state.json` may be among the events.

Times are naive and of the agent's own clock: only their difference is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sluice.memory.extraction.agent_run import (
    AgentRun,
    CallStatus,
    ToolUseEvent,
    folder_of,
    mapping,
    name_of,
    text_of,
    total,
    total_of,
)
from sluice.memory.extraction.file_uses import command_of, directory_before
from sluice.memory.extraction.shell import known


def read_events(events: Sequence[Mapping[str, Any]]) -> AgentRun:
    """Read the run of a conversation's events, of either version."""
    reader = _Reader()
    ids = [event.get("id") for event in events]
    if all(isinstance(one, int) for one in ids):
        events = sorted(events, key=lambda event: event["id"])
    leaf = next((one for event in events if _is_state(event) and (one := name_of(event.get("leaf_event_id")))), None)
    active = _branch(events, leaf)
    for event in events:
        on_branch = active is None or name_of(event.get("id")) in active
        if "kind" in event and not _is_state(event):
            reader.read_v1(event, on_branch)
        elif _is_state(event):
            reader.state(event)
        else:
            reader.read_v0(event)
    return reader.finish(events)


class _Reader:
    def __init__(self) -> None:
        self.run = AgentRun("openhands")
        self.completed: str | None = None
        self.directory: str | None = None
        self.calls_of_actions: dict[str, str] = {}

    # --- V0

    def read_v0(self, event: Mapping[str, Any]) -> None:
        count = _tokens_of(event.get("llm_metrics"))
        self.run.tokens = self.run.tokens if count is None else count
        response = mapping(mapping(event.get("tool_call_metadata")).get("model_response"))
        self.run.model = self.run.model or name_of(response.get("model"))
        if isinstance(event.get("action"), str):
            self._action(event, event["action"], mapping(event.get("args")))
        elif isinstance(event.get("observation"), str):
            self._observation(event, event["observation"], mapping(event.get("extras")))
        else:
            self.run.keep_unknown("unknown_event", event)

    def _action(self, event: Mapping[str, Any], action: str, args: Mapping[str, Any]) -> None:
        by_agent = event.get("source") == "agent"
        if by_agent:
            self.run.say(args.get("thought"))
        if action == "finish":
            self.run.say(args.get("final_thought"))
            completed = args.get("task_completed")
            self.completed = completed.casefold() if isinstance(completed, str) else None
            self.run.exit_status = "finished"
        elif action == "reject":
            self.run.exit_status = "rejected"
        elif action == "message" and by_agent:
            self.run.say(args.get("content"))
        elif action not in known("openhands_no_calls"):
            kept = {name: value for name, value in args.items() if name not in ("thought", "security_risk")}
            editor = action == "edit" and isinstance(args.get("command"), str) and args["command"]
            self.run.call(
                ToolUseEvent(
                    name="file_editor" if editor else action,
                    input=kept,
                    id=_v0_id(event.get("id")),
                    working_directory=self.directory,
                )
            )

    def _observation(self, event: Mapping[str, Any], observation: str, extras: Mapping[str, Any]) -> None:
        if observation == "agent_state_changed":
            state = extras.get("agent_state")
            self.run.exit_status = state if isinstance(state, str) else self.run.exit_status
            reason = extras.get("reason")
            self.run.rate_limited = state == "rate_limited" or (self.run.rate_limited and state != "finished")
            if state == "error" and isinstance(reason, str) and reason.strip():
                self._failed(reason)
            return
        call_id = _v0_id(event.get("cause"))
        call = self.run.find(call_id)
        if call is None:
            if observation not in known("openhands_silent") and observation != "error":
                self.run.not_kept["result_without_call"] += 1
            return
        metadata = mapping(extras.get("metadata"))
        exit_code = _exit_code(metadata.get("exit_code", extras.get("exit_code")))
        output = self.run.clean(event.get("content"))
        refused = observation == "user_rejected"
        failed = (
            observation == "error" or event.get("success") is False or bool(exit_code) or output.startswith("ERROR:")
        )
        if observation in ("edit", "write") and extras.get("prev_exist") is False and not failed:
            output = f"File created successfully: {output}"
        self._stand(metadata.get("working_dir"), call)
        self._answer(call_id, output, exit_code, refused=refused, failed=failed)

    # --- V1

    def read_v1(self, event: Mapping[str, Any], on_branch: bool) -> None:
        kind = event.get("kind")
        if kind == "ActionEvent":
            self._action_event(event, on_branch)
        elif kind == "ObservationEvent":
            self._observation_event(event)
        elif kind in ("AgentErrorEvent", "UserRejectObservation"):
            told = event.get("error") or event.get("rejection_reason")
            refused = kind == "UserRejectObservation"
            self._answer(self._v1_id(event), self.run.clean(told), None, refused=refused, failed=True)
        elif kind == "MessageEvent":
            if event.get("source") == "agent":
                self._say(text_of(mapping(event.get("llm_message")).get("content")), on_branch)
        elif kind == "ConversationErrorEvent":
            self._failed(f"{event.get('code')} {str(event.get('detail'))[:300]}")
        elif kind == "ConversationStateUpdateEvent":
            self._update(event.get("key"), event.get("value"))
        elif not isinstance(kind, str) or kind not in known("openhands_kinds"):
            self.run.keep_unknown("unknown_event", event)

    def state(self, state: Mapping[str, Any]) -> None:
        """Read the conversation's `base_state.json`, or all of its state in one update."""
        self.run.session_id = self.run.session_id or name_of(state.get("id"))
        self.run.model = self.run.model or name_of(mapping(mapping(state.get("agent")).get("llm")).get("model"))
        self.run.root = self.run.root or folder_of(mapping(state.get("workspace")).get("working_dir"))
        for key in ("execution_status", "agent_status", "stats"):
            if key in state:
                self._update(key, state[key])

    def _action_event(self, event: Mapping[str, Any], on_branch: bool) -> None:
        self._say(text_of(event.get("thought")), on_branch)
        action = mapping(event.get("action"))
        kind = action.get("kind")
        if kind == "FinishAction":
            self._say(text_of(action.get("message")), on_branch)
            if on_branch:
                self.run.exit_status = "finished"
        call_id = name_of(event.get("tool_call_id")) or name_of(event.get("id"))
        if isinstance(action_id := event.get("id"), str) and call_id:
            self.calls_of_actions[action_id] = call_id
        silent = kind in ("FinishAction", "ThinkAction")
        self.run.call(
            ToolUseEvent(
                name=name_of(event.get("tool_name")) or name_of(kind) or "unknown",
                input={name: value for name, value in action.items() if name != "kind"},
                id=call_id,
                working_directory=self.directory,
                status=CallStatus.OK if silent else CallStatus.UNANSWERED,
            )
        )

    def _observation_event(self, event: Mapping[str, Any]) -> None:
        observation = mapping(event.get("observation"))
        metadata = mapping(observation.get("metadata"))
        exit_code = _exit_code(observation.get("exit_code", metadata.get("exit_code")))
        content = observation.get("content", observation.get("output"))
        failed = bool(
            observation.get("is_error") or observation.get("error") or exit_code or observation.get("timeout") is True
        )
        told = text_of(content) or text_of(observation.get("error"))
        output = self.run.clean(told)
        if observation.get("prev_exist") is False and not failed:
            output = f"File created successfully: {output}"
        self._stand(metadata.get("working_dir"), self.run.find(self._v1_id(event)))
        self._answer(self._v1_id(event), output, exit_code, failed=failed)

    def _update(self, key: object, value: object) -> None:
        if key in ("execution_status", "agent_status") and isinstance(value, str):
            self.run.exit_status = value.casefold()
        elif key == "stats":
            usages = mapping(mapping(value).get("usage_to_metrics"))
            count = total(map(_tokens_of, usages.values()))
            self.run.tokens = self.run.tokens if count is None else count
        elif key == "full_state":
            self.state(mapping(value))

    def _v1_id(self, event: Mapping[str, Any]) -> str | None:
        call_id = name_of(event.get("tool_call_id"))
        return call_id if self.run.find(call_id) else self.calls_of_actions.get(str(event.get("action_id")), call_id)

    # --- both

    def _say(self, text: str, on_branch: bool) -> None:
        if on_branch:
            self.run.say(text)
        elif text.strip():
            self.run.not_kept["other_branch"] += 1

    def _answer(
        self, call_id: str | None, output: str, exit_code: int | None, *, refused: bool = False, failed: bool = False
    ) -> None:
        status = CallStatus.DENIED if refused else CallStatus.FAILED if failed else CallStatus.OK
        self.run.answer(call_id, output=output, exit_code=exit_code, status=status)

    def _stand(self, directory: object, call: ToolUseEvent | None) -> None:
        """Set the agent's folder after a call. The first call also tells the folder before it."""
        found = folder_of(directory)
        if not found or not found.startswith("/"):
            return
        if self.directory is None and call is not None:
            self.run.answer(call.id, working_directory=directory_before(command_of(call) or "", found))
        self.run.root = self.run.root or found
        self.directory = found

    def _failed(self, reason: str) -> None:
        self.run.failure = reason
        self.run.rate_limited |= "ratelimit" in reason.casefold().replace("_", "").replace(" ", "")

    def finish(self, events: Iterable[Mapping[str, Any]]) -> AgentRun:
        run = self.run
        run.duration_ms = _duration_ms(events)
        if run.exit_status == "finished":
            run.failure, run.rate_limited = None, False
            run.exit_status = f"finished:{self.completed}" if self.completed else "finished"
        return run


def _is_state(event: Mapping[str, Any]) -> bool:
    return "agent" in event and ("execution_status" in event or "agent_status" in event or "workspace" in event)


def _branch(events: Sequence[Mapping[str, Any]], leaf: str | None) -> set[str] | None:
    """Return the ids on the way from `leaf`, else the last event, to the first; None if no event has a parent."""
    parents = {event["id"]: event.get("parent_id") for event in events if isinstance(event.get("id"), str)}
    if not any(isinstance(parent, str) for parent in parents.values()):
        return None
    branch: set[str] = set()
    last = next((event.get("id") for event in reversed(events) if isinstance(event.get("parent_id"), str)), None)
    current: object = leaf if leaf in parents else last
    while isinstance(current, str) and current not in branch:
        branch.add(current)
        current = parents.get(current)
    return branch


def _v0_id(value: object) -> str | None:
    return f"event {value}" if isinstance(value, int) and not isinstance(value, bool) else None


def _exit_code(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value != -1 else None


def _tokens_of(metrics: object) -> int | None:
    return total_of(mapping(metrics).get("accumulated_token_usage"), "prompt_tokens", "completion_tokens")


def _duration_ms(events: Iterable[Mapping[str, Any]]) -> int | None:
    times = [one for event in events if (one := _time(event.get("timestamp"))) is not None]
    return max(0, int((max(times) - min(times)).total_seconds() * 1_000)) if len(times) > 1 else None


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(value).replace(tzinfo=None) if isinstance(value, str) else None
    except ValueError:
        return None
