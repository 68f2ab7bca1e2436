"""A run of an agent in one form for every agent: its messages, its tool calls, its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from sluice.memory.block_marks import cut_blocks
from sluice.text.pattern_file import PatternFile

PHRASES = PatternFile(Path(__file__).with_name("phrases.toml"))

MAX_UNKNOWN_KEPT = 50
"""Events and blocks of unknown types that are kept as they came; all are counted."""


class CallStatus(StrEnum):
    """What became of a tool call."""

    OK = "ok"
    FAILED = "failed"
    DENIED = "denied"
    """A person or a permission refused it."""
    INTERRUPTED = "interrupted"
    UNANSWERED = "unanswered"
    """The output ends before its result."""


@dataclass(frozen=True, slots=True)
class ToolUseEvent:
    """One tool call and its result. `exit_code` and `working_directory` are None where the output does not say."""

    name: str
    input: Mapping[str, Any]
    id: str | None = None
    output: str = ""
    status: CallStatus = CallStatus.UNANSWERED
    exit_code: int | None = None
    working_directory: str | None = None
    """The folder that it ran in."""
    open_file: str | None = None
    """The file that stood in the agent's editor, which an edit without a path means."""
    sub_agent: bool = False


@dataclass(frozen=True, slots=True)
class ResultEvent:
    """A `result` line of Claude Code. `background`: of a turn that the agent's user did not ask for."""

    subtype: str
    is_error: bool
    result: str = ""
    duration_ms: int | None = None
    tokens: int | None = None
    terminal_reason: str = ""
    errors: tuple[str, ...] = ()
    background: bool = False


AgentFormat = Literal["claude-code", "swe-agent", "mini-swe-agent", "openhands", "trace"]


@dataclass(slots=True)
class AgentRun:
    """An iteration as an agent's output tells it; a reader fills it with what it meets.

    Every text that goes in is freed of blocks that memory printed, which `not_kept` counts. `exit_status` is the
    agent's own word for how it ended; `failure` is the code of an error that ended it.
    """

    format: AgentFormat
    said: list[str] = field(default_factory=list)
    calls: list[ToolUseEvent] = field(default_factory=list)
    results: list[ResultEvent] = field(default_factory=list)
    exit_status: str | None = None
    failure: str | None = None
    rate_limited: bool = False
    root: str | None = None
    """The folder that the agent worked in."""
    patch: str = ""
    """What the agent handed in as a unified diff."""
    session_id: str | None = None
    model: str | None = None
    tokens: int | None = None
    tokens_estimated: bool = False
    duration_ms: int | None = None
    not_kept: Counter[str] = field(default_factory=Counter)
    unknown: list[Any] = field(default_factory=list)
    _by_id: dict[str, int] = field(default_factory=dict)

    def clean(self, value: object) -> str:
        """A text of the output without blocks of memory's; "" for what is no text."""
        if not isinstance(value, str):
            return ""
        text, removed = cut_blocks(value)
        self.not_kept["echo"] += removed
        return text

    def say(self, value: object) -> None:
        """Something that the agent wrote to its user or itself."""
        if text := self.clean(value).strip():
            self.said.append(text)

    def call(self, event: ToolUseEvent) -> None:
        """A tool call. One whose id came before is the same call again, and is counted as that."""
        if event.id in self._by_id:
            self.not_kept["repeated_event"] += 1
            return
        if event.id is not None:
            self._by_id[event.id] = len(self.calls)
        self.calls.append(event)

    def answer(self, call_id: object, **found: Any) -> None:
        """The result of a call, as fields of `ToolUseEvent`; counted where there is no such call."""
        call = self.find(call_id)
        if call is None or call.id is None:
            self.not_kept["result_without_call"] += 1
        else:
            self.calls[self._by_id[call.id]] = replace(call, **found)

    def keep_unknown(self, reason: str, value: object) -> None:
        """An event or block of a type that is not known: counted, and kept raw as far as there is room."""
        self.not_kept[reason] += 1
        if len(self.unknown) < MAX_UNKNOWN_KEPT:
            self.unknown.append(value)

    def find(self, call_id: object) -> ToolUseEvent | None:
        """A call as it stands so far; None where there is none of that id."""
        index = self._by_id.get(call_id) if isinstance(call_id, str) else None
        return None if index is None else self.calls[index]

    @property
    def next_number(self) -> int:
        """The next call's, counted from 1."""
        return len(self.calls) + 1


def mapping(value: object) -> Mapping[str, Any]:
    """`value` where it is a JSON object, else an empty one: other people's output is read tolerantly."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a list; nothing where it is none."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def name_of(value: object) -> str | None:
    """A short name, as of a model or a session; None where there is none."""
    return value[:200] if isinstance(value, str) and value.strip() else None


def count_of(value: object) -> int | None:
    """A count that is no less than 0; None for anything else, as for a truth value, which Python takes for a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 53:
        return None
    return int(value)


def total(counts: Iterable[int | None]) -> int | None:
    """The sum of the counts that are known; None where none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def total_of(fields: object, *names: str) -> int | None:
    """The sum of the counts that a JSON object has under these names; None where it has none of them."""
    return total(count_of(mapping(fields).get(name)) for name in names)


def folder_of(value: object) -> str | None:
    """A folder, where a text names one."""
    return value if isinstance(value, str) and 0 < len(value) <= 4_096 else None


def text_of(content: object) -> str:
    """The text of a message or a tool's result, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content
    items = content if isinstance(content, list) else [content]
    texts = (item if isinstance(item, str) else mapping(item).get("text") for item in items)
    return "\n".join(text for text in texts if isinstance(text, str))
