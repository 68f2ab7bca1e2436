"""Removes from a text what would command the agent that reads it, and reports the removals (failure class F20).

All that memory keeps comes from an agent's output, and so from tools, pages and files that others wrote; and all of it
may stand in a later prompt. So each text is sanitised when it is written, and again when it is printed, since rules
improve. `sanitize_learning_text` has memory's own rules: pure Python, no model, below a millisecond. `build_sanitise`
adds a given guard and mask.
"""

from sluice.memory.sanitise.record import sanitise_record
from sluice.memory.sanitise.text import build_sanitise, sanitize_learning_text

__all__ = ["build_sanitise", "sanitise_record", "sanitize_learning_text"]
