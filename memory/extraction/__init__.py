"""From an agent's output to a record: what it did, what failed, what it decided and touched.

`extract` is the way in. A reader for each format (`readers/`) tells what happened as an `AgentRun`; everything after it
(`stagnation`, `files`, `tool_errors`, `decisions`, `outcome`) knows no format.
"""

from sluice.memory.extraction.agent_run import AgentRun, ResultEvent, ToolUseEvent
from sluice.memory.extraction.extract import extract
from sluice.memory.extraction.raw_output import RawIterationOutput, collect
from sluice.memory.extraction.result import ExtractionResult

__all__ = ["AgentRun", "ExtractionResult", "RawIterationOutput", "ResultEvent", "ToolUseEvent", "collect", "extract"]
