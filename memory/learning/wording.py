"""Words learnings that are made by rule, and excludes files and texts that teach nothing.

One sentence or two, understandable alone, with the files' names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sluice.contracts.memory.learning import MAX_LEARNING_CHARACTERS
from sluice.contracts.memory.model import ErrorEntry, FileAction, IterationRecord
from sluice.text.pattern_file import PatternFile

WORDING = PatternFile(Path(__file__).with_name("wording.toml"))
excluded = WORDING.words
"""A list of what nothing is learned of."""
_MOST_FILES = 4


def one_line(text: str, most: int) -> str:
    """`text` on one line, cut at a word's end where it is longer than `most` characters."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head = text[: most - 1]
    blank = head.rfind(" ", most * 2 // 3)
    return head[: blank if blank > 0 else None].rstrip(" ,;:") + "…"


def listed(names: Sequence[object]) -> str:
    """`1, 2 and 3`."""
    *some, last = map(str, names)
    return f"{', '.join(some)} and {last}" if some else last


def first_sentence(text: str, most: int) -> str:
    """The first sentence of a text, on one line."""
    text = " ".join(text.split())
    found = WORDING["first_sentence"].match(text)
    return one_line(found[1] if found else text, most)


def as_decision(description: str) -> str:
    """A decision of the first person as an observation: "I'll use Decimal" becomes "Decided to use Decimal"."""
    return WORDING["decided"].sub("Decided to ", description, count=1)


def the_error(error: ErrorEntry, most: int) -> str:
    """An error as the subject of a sentence: what, and in which file."""
    tool = f"{error.tool}: " if error.tool and not error.message.lower().startswith(error.tool.lower()) else ""
    place = f" in {error.file_path}" if error.file_path and error.file_path not in error.message else ""
    message = one_line(error.message, most).rstrip(".")
    return f'{tool}"{message}"{place}'


def changed_files(records: Sequence[IterationRecord]) -> tuple[str, ...]:
    """Files that these iterations changed and that something may be learned of, in order."""
    paths = (one.path for record in records for one in record.files_touched if one.action is not FileAction.READ)
    return tuple(dict.fromkeys(path for path in paths if not should_exclude_from_auto_accumulation(path)))


def list_files(paths: Sequence[str]) -> str:
    """Some of the paths, and how many more there are."""
    shown = ", ".join(paths[:_MOST_FILES])
    return shown + (f" and {len(paths) - _MOST_FILES} more files" if len(paths) > _MOST_FILES else "")


def is_about_excluded_files(text: str) -> bool:
    """Whether all files that a text names are such that nothing is learned of them by rule."""
    paths = WORDING["path"].findall(text)
    return bool(paths) and all(should_exclude_from_auto_accumulation(path) for path in paths)


def fit(text: str) -> str:
    """`text` as long as a learning may be."""
    return one_line(text, MAX_LEARNING_CHARACTERS)


def should_exclude_from_auto_accumulation(path: str) -> bool:
    """Whether nothing is to be learned by rule from a file: lock files, dependencies, outputs, caches, logs, secrets.

    `path` is relative to the project, or absolute. What a person or an agent says of such a file is still a learning.
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
