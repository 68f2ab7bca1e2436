"""Writes what Claude Code prints in one run (`-p --output-format stream-json --verbose`), line by line."""

from __future__ import annotations

import json
import uuid
from itertools import count
from typing import Any

MODEL = "claude-sonnet-4-5"


class ClaudeStream:
    """One run in a folder. Each method adds the lines that the agent prints for it; `end` gives the whole stream."""

    def __init__(self, session_id: str, folder: str) -> None:
        self._session = session_id
        self._folder = folder
        self._numbers = count(1)
        self._lines: list[dict[str, Any]] = [
            {
                "type": "system",
                "subtype": "init",
                "cwd": folder,
                "session_id": session_id,
                "tools": ["Bash", "Edit", "Read"],
                "mcp_servers": [],
                "model": MODEL,
                "permissionMode": "acceptEdits",
                "claude_code_version": "2.1.3",
                "uuid": self._uuid(),
            }
        ]

    def say(self, text: str) -> ClaudeStream:
        """A text of the agent."""
        return self._assistant({"type": "text", "text": text})

    def read(self, path: str, content: str) -> ClaudeStream:
        """A file that it reads; the tool numbers the lines."""
        numbered = "\n".join(f"{number:6}→{line}" for number, line in enumerate(content.split("\n"), 1))
        return self._call("Read", {"file_path": f"{self._folder}/{path}"}, numbered)

    def edit(self, path: str, old: str, new: str) -> ClaudeStream:
        """A change to a file."""
        given = {"file_path": f"{self._folder}/{path}", "old_string": old, "new_string": new}
        return self._call("Edit", given, f"The file {self._folder}/{path} has been updated.")

    def run(self, command: str, output: str, exit_code: int = 0) -> ClaudeStream:
        """A command and what it printed."""
        shown = f"Exit code {exit_code}\n{output}" if exit_code else output
        return self._call("Bash", {"command": command, "description": command}, shown, failed=exit_code != 0)

    def end(self, result: str) -> str:
        """The stream, closed by its result: `success`, as of each session that ended by itself, also with red tests."""
        self._lines.append(
            {
                "type": "result",
                "subtype": "success",
                "is_error": False,
                "duration_ms": 41_000,
                "num_turns": len(self._lines) // 2,
                "result": result,
                "session_id": self._session,
                "total_cost_usd": 0.08,
                "usage": {"input_tokens": 900, "output_tokens": 700, "cache_read_input_tokens": 20_000},
                "permission_denials": [],
                "uuid": self._uuid(),
            }
        )
        return "".join(json.dumps(line) + "\n" for line in self._lines)

    def _call(self, tool: str, given: dict[str, Any], output: str, *, failed: bool = False) -> ClaudeStream:
        identity = f"toolu_{next(self._numbers):024}"
        self._assistant({"type": "tool_use", "id": identity, "name": tool, "input": given})
        answer: dict[str, Any] = {"tool_use_id": identity, "type": "tool_result", "content": output}
        if failed:
            answer["is_error"] = True
        self._lines.append(
            {
                "type": "user",
                "message": {"role": "user", "content": [answer]},
                "parent_tool_use_id": None,
                "session_id": self._session,
                "uuid": self._uuid(),
            }
        )
        return self

    def _assistant(self, block: dict[str, Any]) -> ClaudeStream:
        message = {
            "model": MODEL,
            "id": f"msg_{next(self._numbers):024}",
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 4},
        }
        self._lines.append(
            {
                "type": "assistant",
                "message": message,
                "parent_tool_use_id": None,
                "session_id": self._session,
                "uuid": self._uuid(),
            }
        )
        return self

    def _uuid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._session} {next(self._numbers)}"))
