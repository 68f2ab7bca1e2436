"""An agent's run in one form for all agents: its messages, its tool calls, its end; and JSON as agents write it."""

from __future__ import annotations

import json
import re
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
"""Most events and blocks of unknown types that are kept raw; all are counted."""


class CallStatus(StrEnum):
    """Result of a tool call."""

    OK = "ok"
    FAILED = "failed"
    DENIED = "denied"
    """A person or a permission refused the call."""
    INTERRUPTED = "interrupted"
    UNANSWERED = "unanswered"
    """The output ends before the call's result."""


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
    """Folder that the call ran in."""
    open_file: str | None = None
    """File open in the agent's editor, to which an edit without a path applies."""
    sub_agent: bool = False
    said_before: int = 0
    """Number of texts that the agent had said before the call."""


@dataclass(frozen=True, slots=True)
class ResultEvent:
    """A `result` line of Claude Code. `background` marks a turn that the agent's user did not request."""

    subtype: str
    is_error: bool
    result: str = ""
    duration_ms: int | None = None
    tokens: int | None = None
    terminal_reason: str = ""
    errors: tuple[str, ...] = ()
    background: bool = False


AgentFormat = Literal["claude-code", "swe-agent", "mini-swe-agent", "openhands", "codex", "trace"]


@dataclass(slots=True)
class AgentRun:
    """An iteration as an agent's output reports it; a reader fills it step by step.

    Blocks that memory printed are removed from every text and counted in `not_kept`. `exit_status` is the agent's own
    word for how it ended; `failure` is the code of an error that ended it.
    """

    format: AgentFormat
    said: list[str] = field(default_factory=list)
    calls: list[ToolUseEvent] = field(default_factory=list)
    results: list[ResultEvent] = field(default_factory=list)
    exit_status: str | None = None
    failure: str | None = None
    rate_limited: bool = False
    root: str | None = None
    """Folder that the agent worked in."""
    patch: str = ""
    """Patch that the agent submitted, as a unified diff."""
    session_id: str | None = None
    model: str | None = None
    tokens: int | None = None
    tokens_estimated: bool = False
    duration_ms: int | None = None
    not_kept: Counter[str] = field(default_factory=Counter)
    unknown: list[Any] = field(default_factory=list)
    _by_id: dict[str, int] = field(default_factory=dict)

    def clean(self, value: object) -> str:
        """Return `value` without blocks that memory printed; "" if it is not a text."""
        if not isinstance(value, str):
            return ""
        text, removed = cut_blocks(value)
        self.not_kept["echo"] += removed
        return text

    def say(self, value: object) -> None:
        """Add a text that the agent wrote to its user or itself."""
        if text := self.clean(value).strip():
            self.said.append(text)

    def call(self, event: ToolUseEvent) -> None:
        """Add a tool call. A known id is the same call again and is only counted."""
        if event.id in self._by_id:
            self.not_kept["repeated_event"] += 1
            return
        if event.id is not None:
            self._by_id[event.id] = len(self.calls)
        self.calls.append(replace(event, said_before=len(self.said)))

    def answer(self, call_id: object, **found: Any) -> None:
        """Set the fields of `ToolUseEvent` that a call's result gives; count a result without a call."""
        call = self.find(call_id)
        if call is None or call.id is None:
            self.not_kept["result_without_call"] += 1
        else:
            self.calls[self._by_id[call.id]] = replace(call, **found)

    def keep_unknown(self, reason: str, value: object) -> None:
        """Count an event or block of unknown type, and keep it raw while there is room."""
        self.not_kept[reason] += 1
        if len(self.unknown) < MAX_UNKNOWN_KEPT:
            self.unknown.append(value)

    def find(self, call_id: object) -> ToolUseEvent | None:
        """Return the call of this id as known so far; None if there is none."""
        index = self._by_id.get(call_id) if isinstance(call_id, str) else None
        return None if index is None else self.calls[index]

    @property
    def next_number(self) -> int:
        """Number of the next call, counted from 1."""
        return len(self.calls) + 1


def mapping(value: object) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, else an empty one: other people's output is read tolerantly."""
    return value if isinstance(value, dict) else {}


def objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a list; nothing if `value` is no list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def name_of(value: object) -> str | None:
    """Return a short name, as of a model or a session; None if `value` holds none."""
    return value[:200] if isinstance(value, str) and value.strip() else None


def count_of(value: object) -> int | None:
    """Return a count of at least 0; None for anything else, also for a truth value, which Python takes for a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 53:
        return None
    return int(value)


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the known counts; None if none is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def total_of(fields: object, *names: str) -> int | None:
    """Return the sum of the counts that a JSON object has under these names; None if it has none of them."""
    return total(count_of(mapping(fields).get(name)) for name in names)


def folder_of(value: object) -> str | None:
    """Return `value` if it is a text that can name a folder, else None."""
    return value if isinstance(value, str) and 0 < len(value) <= 4_096 else None


def text_of(content: object) -> str:
    """Return the text of a message or a tool's result, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content
    items = content if isinstance(content, list) else [content]
    texts = (item if isinstance(item, str) else mapping(item).get("text") for item in items)
    return "\n".join(text for text in texts if isinstance(text, str))


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that may stand for half a character."""


class NotJson(ValueError):
    """The text is not JSON."""


def decode(text: str, *, finite: bool = False) -> Any:
    """Return the value of a JSON text, without lone surrogates.

    NaN and the infinities, which JSON does not know, become None; they are an error if `finite`. Raises `NotJson`, also
    for a text nested deeper than the decoder goes, or with a number of thousands of digits.
    """
    try:
        value = (_FINITE if finite else _TOLERANT).decode(text)
        return scrubbed(value) if _SURROGATE.search(text) else value
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error) or type(error).__name__) from error


def decoded(value: Any) -> Any:
    """Return the value of a JSON text, None for a text that is not JSON; any other value unchanged."""
    try:
        return decode(value) if isinstance(value, str) else value
    except NotJson:
        return None


def decode_lines(text: str) -> tuple[list[Any], Counter[str]]:
    """Return the values of JSON lines, and the count of other lines: `not_json`, or `half_line` for a torn last one."""
    values: list[Any] = []
    counted: Counter[str] = Counter()
    every = list(lines(text))
    for index, line in enumerate(every):
        try:
            values.append(decode(line))
        except NotJson:
            counted["half_line" if index == len(every) - 1 and not text.endswith("\n") else "not_json"] += 1
    return values, counted


def scrubbed(value: Any) -> Any:
    """Return a JSON value with each lone surrogate in its texts, which no encoding can carry, as U+FFFD.

    Raises `RecursionError` if the value is nested too deeply.
    """
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(str(key)): scrubbed(item) for key, item in value.items()}
    return value


def without_surrogates(text: str) -> str:
    """Return one text with its lone surrogates replaced, as `scrubbed` does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def lines(text: str) -> Iterator[str]:
    """Yield the non-blank lines. Only a line feed ends a line: JSON strings may hold Unicode's other line ends."""
    return (line for line in text.split("\n") if line and not line.isspace())


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


_FINITE = json.JSONDecoder(parse_constant=_refuse)
_TOLERANT = json.JSONDecoder(parse_constant=lambda _name: None)
