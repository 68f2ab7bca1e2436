"""Extracts a record from an agent's output: its actions, errors, decisions and files.

`extract` is the way in. A reader for each format (`readers/`) makes an `AgentRun`; everything after it (`files`,
`tool_errors`, `checks`, `decisions`) is independent of the format.
"""

from sluice.memory.extraction.agent_run import AgentRun, ResultEvent, ToolUseEvent
from sluice.memory.extraction.extract import extract
from sluice.memory.extraction.raw_output import RawIterationOutput, collect
from sluice.memory.extraction.result import ExtractionResult

__all__ = ["AgentRun", "ExtractionResult", "RawIterationOutput", "ResultEvent", "ToolUseEvent", "collect", "extract"]
