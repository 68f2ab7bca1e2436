"""Removes from a text what would command the agent that reads it, and reports the removals (failure class F20).

All that memory keeps comes from an agent's output, and so from tools, pages and files that others wrote; and all of it
may stand in a later prompt. So each text is sanitised when it is written, and again when it is printed, as rules
improve. `sanitize_learning_text` has memory's own rules, without a model; `build_sanitise` adds a guard and a mask.
"""

from sluice.memory.sanitise.record import sanitise_record
from sluice.memory.sanitise.text import build_sanitise, sanitize_learning_text

__all__ = ["build_sanitise", "sanitise_record", "sanitize_learning_text"]
