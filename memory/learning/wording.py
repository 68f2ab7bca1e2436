"""Writes the texts of learnings made by rule, and excludes files and texts that teach nothing.

A text is one sentence or two, understandable alone, with the files' names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sluice.contracts.memory.learning import MAX_LEARNING_CHARACTERS
from sluice.contracts.memory.model import ErrorEntry, FileAction, IterationRecord
from sluice.text.pattern_file import PatternFile

WORDING = PatternFile(Path(__file__).with_name("wording.toml"))
excluded = WORDING.words
"""Word lists of files and texts from which nothing is learned."""
_MOST_FILES = 4


def one_line(text: str, most: int) -> str:
    """Return `text` on one line, cut at a word's end if it is longer than `most` characters."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head = text[: most - 1]
    blank = head.rfind(" ", most * 2 // 3)
    return head[: blank if blank > 0 else None].rstrip(" ,;:") + "…"


def listed(names: Sequence[object]) -> str:
    """Join names as `1, 2 and 3`."""
    *some, last = map(str, names)
    return f"{', '.join(some)} and {last}" if some else last


def first_sentence(text: str, most: int) -> str:
    """Return the first sentence of a text, on one line."""
    text = " ".join(text.split())
    found = WORDING["first_sentence"].match(text)
    return one_line(found[1] if found else text, most)


def as_decision(description: str) -> str:
    """Turn a first-person decision into an observation: "I'll use Decimal" becomes "Decided to use Decimal"."""
    return WORDING["decided"].sub("Decided to ", description, count=1)


def the_error(error: ErrorEntry, most: int) -> str:
    """Return an error as the subject of a sentence: its message and file."""
    tool = f"{error.tool}: " if error.tool and not error.message.lower().startswith(error.tool.lower()) else ""
    place = f" in {error.file_path}" if error.file_path and error.file_path not in error.message else ""
    message = one_line(error.message, most).rstrip(".")
    return f'{tool}"{message}"{place}'


def came_up_again(error: ErrorEntry) -> str:
    """Return the learning that an error came up in more than one iteration."""
    return f"{the_error(error, 350)} came up in more than one iteration."


def changed_files(records: Sequence[IterationRecord]) -> tuple[str, ...]:
    """Return the files that these iterations changed, in order, without those that teach nothing."""
    paths = (one.path for record in records for one in record.files_touched if one.action is not FileAction.READ)
    return tuple(dict.fromkeys(path for path in paths if not should_exclude_from_auto_accumulation(path)))


def list_files(paths: Sequence[str]) -> str:
    """Return some of the paths, and the number of the others."""
    shown = ", ".join(paths[:_MOST_FILES])
    return shown + (f" and {len(paths) - _MOST_FILES} more files" if len(paths) > _MOST_FILES else "")


def is_about_excluded_files(text: str) -> bool:
    """Return whether a text names files, all of which are excluded from learning by rule."""
    paths = WORDING["path"].findall(text)
    return bool(paths) and all(should_exclude_from_auto_accumulation(path) for path in paths)


def fit(text: str) -> str:
    """Return `text`, cut to the length of a learning."""
    return one_line(text, MAX_LEARNING_CHARACTERS)


def should_exclude_from_auto_accumulation(path: str) -> bool:
    """Return whether rules learn nothing from a file: lock files, dependencies, outputs, caches, logs, secrets.

    `path` is relative to the project, or absolute. A person's or an agent's own statement on such a file is a learning.
    """
    parts = [part for part in path.replace("\\", "/").lower().split("/") if part not in ("", ".")]
    if not parts:
        return True
    *folders, name = parts
    if any(folder in excluded("folders") or folder.endswith(tuple(excluded("folder_endings"))) for folder in folders):
        return True
    if name in excluded("names") or name in (".git", "node_modules", "__pycache__"):
        return True
    return bool(WORDING["endings"].search(name)) or bool(WORDING["environment"].fullmatch(name))
